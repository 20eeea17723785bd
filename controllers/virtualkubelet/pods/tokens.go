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

	// tokenPause is the minimum time between two deliveries of tokens of a pod. The cache lags behind writes, and a
	// provider could otherwise cause many tokens by deleting them or their shadow pod.
	tokenPause = 30 * time.Second
	// deliveryPause is the time for which no tokens of a pod are requested after a failed delivery. It bounds the
	// tokens that a provider can cause.
	deliveryPause = 2 * time.Second
	// accountPause is the time for which no token of a service account is requested after a request was refused.
	accountPause = 250 * time.Millisecond
	// tokenGrace is the age of a pod from which an event reports refused tokens: the admission policy may not have
	// observed a new pod yet.
	tokenGrace = 5 * time.Second
)

// refusedAccounts are the service accounts whose token was refused within accountPause. The zero value is
// empty.
type refusedAccounts struct {
	mu sync.Mutex
	at map[cache.ObjectName]time.Time
}

// add records that a token of the account was refused.
func (r *refusedAccounts) add(account cache.ObjectName, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil {
		r.at = map[cache.ObjectName]time.Time{}
	}
	maps.DeleteFunc(r.at, func(_ cache.ObjectName, at time.Time) bool { return now.Sub(at) >= accountPause })
	r.at[account] = now
}

// left returns the time until a token of the account may be requested. It is not positive if that is now.
func (r *refusedAccounts) left(account cache.ObjectName, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, refused := r.at[account]
	if !refused {
		return 0
	}
	return accountPause - now.Sub(at)
}

// destination returns the current destination of shadow pods. Access to the consumer's API server, its address and the
// offered node can change.
func (c *Controller) destination() translate.Destination {
	to := c.To
	if c.APIAccessAllowed != nil && !c.APIAccessAllowed() {
		to.ConsumerAPI = translate.ConsumerAPI{}
	}
	if address, ok := c.consumerAPIAddress(to.ConsumerAPI); ok {
		to.ConsumerAPI.Host = address
	}
	if c.OfferedNode != nil {
		to.OfferedNode = c.OfferedNode()
	}
	return to
}

// consumerAPIAddress returns the address at which the provider reaches the consumer's API server; false if there is
// none yet.
func (c *Controller) consumerAPIAddress(api translate.ConsumerAPI) (string, bool) {
	if !c.ConsumerAPIThroughTunnel || api.Host == "" {
		return api.Host, true
	}
	return c.Network.ToRemote(api.Host)
}

// refreshTokens ensures that the Secret with the tokens of a pod exists in the remote namespace and replaces it before
// the tokens expire. It does nothing for a shadow pod that uses no such Secret.
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
	desired := translate.Tokens(pod)
	if len(desired) == 0 {
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
	secret, err := c.issue(ctx, pod, shadow, desired)
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
	c.Metrics.tokens.Add(float64(len(desired)))
	klog.FromContext(ctx).
		V(2).
		Info("Delivered tokens", "secret", klog.KObj(secret), "renewAfter", translate.RenewAfter(secret))
	return nil
}

func (c *Controller) setDelivery(key cache.ObjectName, pod types.UID, pause time.Duration) {
	until := c.Clock.Now().Add(pause)
	c.states.change(key, func(s *podState) { s.local.delivery = &delivery{pod: pod, until: until} })
}

// refreshLastTokens replaces the tokens of a pod that is being deleted: its grace period can exceed their lifetime.
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

// issue requests the tokens, which are bound to the pod, from the local API server. It fails if one is refused.
func (c *Controller) issue(
	ctx context.Context,
	pod *corev1.Pod,
	shadow *v1alpha1.ShadowPod,
	desired []translate.Token,
) (*corev1.Secret, error) {
	accounts := c.Local.CoreV1().ServiceAccounts(pod.Namespace)
	tokens := make(map[string]string, len(desired))
	var renewAfter time.Time
	for _, token := range desired {
		issued := c.Clock.Now()
		if len(token.Spec.Audiences) == 0 && c.Audience != "" {
			token.Spec.Audiences = []string{c.Audience}
		}
		response, err := accounts.CreateToken(
			ctx,
			pod.Spec.ServiceAccountName,
			&authenticationv1.TokenRequest{Spec: token.Spec},
			metav1.CreateOptions{},
		)
		if err != nil {
			return nil, fmt.Errorf("requesting a token of service account %s: %w", pod.Spec.ServiceAccountName, err)
		}
		tokens[token.Key] = response.Status.Token
		// All tokens are in one Secret and are replaced together.
		at := translate.Renewal(issued, response.Status.ExpirationTimestamp.Time, rand.Float64())
		if renewAfter.IsZero() || at.Before(renewAfter) {
			renewAfter = at
		}
	}
	return translate.TokenSecret(pod, shadow, tokens, renewAfter, c.To), nil
}

// deliver creates the Secret on the provider or updates the existing one. It fails if another object has its name.
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

// reportTokenError records an event about an error of issuing or delivering tokens, and returns the error, so that the
// pod is retried.
func (c *Controller) reportTokenError(pod *corev1.Pod, err error) error {
	if c.Clock.Since(pod.CreationTimestamp.Time) < tokenGrace {
		return err
	}
	if remote.Refused(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		c.Recorder.Event(pod, corev1.EventTypeWarning, ReasonTokenRefused, translate.Message(err.Error()))
	}
	return err
}
