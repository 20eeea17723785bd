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
	// ReasonTokenRefused of an event on a pod means that the local API server refuses to issue a token of the pod, or the
	// provider refuses the Secret with the tokens. The message has the cause; the request is retried.
	ReasonTokenRefused = "TokenRefused"

	// tokenPause is the minimum time between two deliveries of a pod's tokens. The cache lags behind writes, and a
	// provider could otherwise cause many tokens by deleting their Secret or the shadow pod.
	tokenPause = 30 * time.Second
	// deliveryPause is the time after a failed delivery during which no tokens are requested for the pod. It bounds the
	// number of tokens that a provider can cause.
	deliveryPause = 2 * time.Second
	// accountPause is the time after a refused token request during which no token of the service account is requested.
	accountPause = 250 * time.Millisecond
	// tokenGrace is the minimum age of a pod whose refused tokens are reported by events. The tokens of a younger pod may
	// be refused only because the admission policy has not received the pod yet.
	tokenGrace = 5 * time.Second
)

// refusedAccounts has the service accounts for which a token was refused within accountPause. Its zero value is empty.
type refusedAccounts struct {
	mu sync.Mutex
	at map[cache.ObjectName]time.Time
}

// add records that a token of the service account was refused.
func (r *refusedAccounts) add(account cache.ObjectName, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil {
		r.at = map[cache.ObjectName]time.Time{}
	}
	maps.DeleteFunc(r.at, func(_ cache.ObjectName, at time.Time) bool { return now.Sub(at) >= accountPause })
	r.at[account] = now
}

// left returns the time until a token of the service account may be requested; zero or negative means now.
func (r *refusedAccounts) left(account cache.ObjectName, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, refused := r.at[account]
	if !refused {
		return 0
	}
	return accountPause - now.Sub(at)
}

// destination returns Config.To with the current offered node and the current endpoint of the consumer's API server,
// which is empty if pods may not use it.
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

// consumerAPIAddress returns the address at which the provider reaches the consumer's API server; false if the network
// has no address for it yet.
func (c *Controller) consumerAPIAddress(api translate.ConsumerAPI) (string, bool) {
	if !c.ConsumerAPIServerThroughTunnels || api.Host == "" {
		return api.Host, true
	}
	return c.Network.ToRemote(api.Host)
}

// refreshTokens ensures that the remote namespace has the Secret with the tokens of a pod, and replaces it before the
// tokens expire. It does nothing if the shadow pod names no such Secret or the pod may not use the consumer's API
// server. It only enqueues the pod for a later time while the tokens in the Secret are not due for renewal, for
// tokenPause after a delivery, for deliveryPause after a failed delivery, and for accountPause after a refused request
// for tokens of the ServiceAccount.
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

// refreshLastTokens calls refreshTokens for a pod that is being deleted, because the grace period can be longer than
// the lifetime of the tokens. It does nothing if the remote namespace has no Secret with the tokens.
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

// issue requests the tokens of a pod, bound to it, from the local API server, and returns the Secret for the provider.
// It fails if the request for one of the tokens fails.
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
		// All tokens of a pod are in one Secret, so the first one to expire determines when all are renewed.
		at := translate.Renewal(issued, response.Status.ExpirationTimestamp.Time, rand.Float64())
		if renewAfter.IsZero() || at.Before(renewAfter) {
			renewAfter = at
		}
	}
	return translate.TokenSecret(pod, shadow, tokens, renewAfter, c.To), nil
}

// deliver creates the Secret in the remote namespace or updates the existing one. It fails if another object has this
// name.
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

// reportTokenError records an event if the local API server or the provider refused the tokens of a pod that is older
// than tokenGrace. It always returns err, so that the pod is retried.
func (c *Controller) reportTokenError(pod *corev1.Pod, err error) error {
	if c.Clock.Since(pod.CreationTimestamp.Time) < tokenGrace {
		return err
	}
	if remote.Refused(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		c.Recorder.Event(pod, corev1.EventTypeWarning, ReasonTokenRefused, remote.Refusal(err, translate.MaxText))
	}
	return err
}
