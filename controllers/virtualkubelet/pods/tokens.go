// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/controllers/remote"
	"liqo.io/federation/controllers/virtualkubelet/remotens"
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

const (
	// ReasonTokenRefused means, on a local pod, that its tokens cannot be sent to the provider.
	ReasonTokenRefused = "TokenRefused"

	// tokenPause is how long no tokens of a pod are sent after a delivery: the cache lags behind,
	// and a provider that deletes them, or their shadow pod, again and again gets no more of them.
	tokenPause = 30 * time.Second
	// deliveryPause is how long no tokens of a pod are requested after their delivery was refused:
	// this bounds the tokens that a provider can cause.
	deliveryPause = 2 * time.Second
	// accountPause is how long no token of a service account is requested after one was refused.
	accountPause = 250 * time.Millisecond
	// tokenGrace is how long the tokens of a new pod may be refused before an event reports it:
	// the admission policy may not have observed the pod of the account yet.
	tokenGrace = 5 * time.Second
)

// refusedAccounts are the service accounts whose token was refused within accountPause. The zero value is
// empty.
type refusedAccounts struct {
	mu sync.Mutex
	at map[cache.ObjectName]time.Time
}

// add sets that a token was refused.
func (r *refusedAccounts) add(account cache.ObjectName, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil {
		r.at = map[cache.ObjectName]time.Time{}
	}
	maps.DeleteFunc(r.at, func(_ cache.ObjectName, at time.Time) bool { return now.Sub(at) >= accountPause })
	r.at[account] = now
}

// left returns the time for which no token is requested; at most zero if there is none.
func (r *refusedAccounts) left(account cache.ObjectName, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, refused := r.at[account]
	if !refused {
		return 0
	}
	return accountPause - now.Sub(at)
}

// destination returns the destination of shadow pods now: whether they may use the API server of
// this cluster can change.
func (c *Controller) destination() translate.Destination {
	to := c.To
	if c.APIAccessAllowed != nil && !c.APIAccessAllowed() {
		to.ConsumerAPI = translate.ConsumerAPI{}
	}
	if there, ok := c.consumerAPIAddress(to.ConsumerAPI); ok {
		to.ConsumerAPI.Host = there
	}
	if c.OfferedNode != nil {
		to.OfferedNode = c.OfferedNode()
	}
	return to
}

// consumerAPIAddress returns the address at which the provider reaches the API server of this
// cluster; false if there is none yet.
func (c *Controller) consumerAPIAddress(api translate.ConsumerAPI) (string, bool) {
	if !c.ConsumerAPIThroughTunnel || api.Host == "" {
		return api.Host, true
	}
	return c.Network.There(api.Host)
}

// refreshTokens ensures that the tokens of a pod are stored on the provider while its shadow pod
// uses them, and replaces them in time.
func (c *Controller) refreshTokens(
	ctx context.Context,
	key cache.ObjectName,
	pod *corev1.Pod,
	shadow *v1alpha1.ShadowPod,
	t *remotens.Namespace,
) error {
	if t.Tokens == nil || shadow.Annotations[v1alpha1.AnnotationTokenSecret] == "" ||
		!translate.ReachesConsumerAPI(pod, c.destination()) {
		return nil
	}
	wanted := translate.Tokens(pod)
	if len(wanted) == 0 {
		return nil
	}
	existing := t.TokenSecret(translate.TokenSecretName(pod.UID))
	if existing != nil && translate.TokenOwner(existing).UID == shadow.UID {
		if left := existing.RenewAfter.Sub(c.Clock.Now()); left > 0 {
			c.queue.AddAfter(key, left)
			return nil
		}
	}
	if last := c.states.read(key).local.delivery; last != nil && last.pod == pod.UID {
		if left := last.until.Sub(c.Clock.Now()); left > 0 {
			c.queue.AddAfter(key, left)
			return nil
		}
	}
	account := cache.NewObjectName(pod.Namespace, pod.Spec.ServiceAccountName)
	if left := c.refusedAccounts.left(account, c.Clock.Now()); left > 0 {
		c.queue.AddAfter(key, left)
		return nil
	}
	secret, err := c.issue(ctx, pod, shadow, wanted)
	if err != nil {
		if apierrors.IsForbidden(err) {
			c.refusedAccounts.add(account, c.Clock.Now())
		}
		return c.reportTokenError(pod, err)
	}
	if err := c.deliver(ctx, existing, secret); err != nil {
		c.setDelivery(key, pod.UID, deliveryPause)
		return c.reportTokenError(pod, err)
	}
	c.setDelivery(key, pod.UID, tokenPause)
	c.Metrics.tokens.Add(float64(len(wanted)))
	klog.FromContext(ctx).
		V(2).
		Info("Delivered tokens", "secret", klog.KObj(secret), "renewAfter", translate.RenewAfter(secret))
	return nil
}

func (c *Controller) setDelivery(key cache.ObjectName, pod types.UID, pause time.Duration) {
	until := c.Clock.Now().Add(pause)
	c.states.change(key, func(s *podState) { s.local.delivery = &delivery{pod: pod, until: until} })
}

// refreshLastTokens replaces the tokens of a pod that is being deleted, since its grace period can
// be longer than their lifetime.
func (c *Controller) refreshLastTokens(
	ctx context.Context,
	key cache.ObjectName,
	pod *corev1.Pod,
	shadow *v1alpha1.ShadowPod,
	t *remotens.Namespace,
) error {
	if t.Tokens == nil || t.TokenSecret(translate.TokenSecretName(pod.UID)) == nil {
		return nil
	}
	return c.refreshTokens(ctx, key, pod, shadow, t)
}

// issue requests the tokens from this cluster. They expire with the pod.
func (c *Controller) issue(
	ctx context.Context,
	pod *corev1.Pod,
	shadow *v1alpha1.ShadowPod,
	wanted []translate.Token,
) (*corev1.Secret, error) {
	accounts := c.Local.CoreV1().ServiceAccounts(pod.Namespace)
	tokens := make(map[string]string, len(wanted))
	var renewAfter time.Time
	for _, token := range wanted {
		issued := c.Clock.Now()
		if len(token.Spec.Audiences) == 0 && c.Audience != "" {
			token.Spec.Audiences = []string{c.Audience}
		}
		answer, err := accounts.CreateToken(
			ctx,
			pod.Spec.ServiceAccountName,
			&authenticationv1.TokenRequest{Spec: token.Spec},
			metav1.CreateOptions{},
		)
		if err != nil {
			return nil, fmt.Errorf("asking for a token of service account %s: %w", pod.Spec.ServiceAccountName, err)
		}
		tokens[token.Key] = answer.Status.Token
		// All are in one Secret and are replaced together.
		at := translate.Renewal(issued, answer.Status.ExpirationTimestamp.Time, rand.Float64())
		if renewAfter.IsZero() || at.Before(renewAfter) {
			renewAfter = at
		}
	}
	return translate.TokenSecret(pod, shadow, tokens, renewAfter, c.To), nil
}

// deliver stores the Secret on the provider. Another object of its name is left alone.
func (c *Controller) deliver(ctx context.Context, existing *translate.RemoteTokens, secret *corev1.Secret) error {
	secrets := c.Remote.Core.CoreV1().Secrets(secret.Namespace)
	var err error
	if existing == nil {
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	} else {
		secret.ResourceVersion = existing.ResourceVersion
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("delivering tokens to namespace %s of %s: %w", secret.Namespace, c.Provider, err)
	}
	return nil
}

// reportTokenError records an event about an error that keeps tokens from a pod, and returns the
// error for the retry.
func (c *Controller) reportTokenError(pod *corev1.Pod, err error) error {
	if c.Clock.Since(pod.CreationTimestamp.Time) < tokenGrace {
		return err
	}
	if remote.Refused(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		c.Recorder.Event(pod, corev1.EventTypeWarning, ReasonTokenRefused, translate.Message(err.Error()))
	}
	return err
}
