// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

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
	"liqo.io/federation/controllers/virtualkubelet/translate"
)

const (
	// ReasonTokenRefused says, on a local pod, that its tokens do not follow it.
	ReasonTokenRefused = "TokenRefused"

	// tokenPause is how long the tokens of a pod are left alone that were just
	// delivered: the cache lags behind, and a provider that takes them away again
	// and again, or the shadow pod that they belong to, gets no more of them.
	tokenPause = 30 * time.Second
	// deliveryPause is how long no tokens of a pod are asked for whose delivery
	// was just refused: whatever the provider does, it costs few tokens.
	deliveryPause = 2 * time.Second
	// accountPause is how long no token of a service account is asked for that
	// was just refused.
	accountPause = 250 * time.Millisecond
	// tokenGrace is how long the tokens of a new pod may be refused before its
	// owner is told: whether its account is one of this node's is being found out.
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

// destination is where pods go now: whether they reach their home from there
// can change.
func (p *Pods) destination() translate.Destination {
	to := p.to
	if p.homeAllowed != nil && !p.homeAllowed() {
		to.ConsumerAPI = translate.ConsumerAPI{}
	}
	if there, ok := p.homeThere(to.ConsumerAPI); ok {
		to.ConsumerAPI.Host = there
	}
	if p.offeredNode != nil {
		to.OfferedNode = p.offeredNode()
	}
	return to
}

// homeThere is what the provider reaches the API server of this cluster at;
// false where it does not yet.
func (p *Pods) homeThere(home translate.ConsumerAPI) (string, bool) {
	if !p.homeThroughTunnel || home.Host == "" {
		return home.Host, true
	}
	return p.network.there(home.Host)
}

// keepTokens has the tokens that a pod mounts beside its shadow pod, for as
// long as that takes them from there, and replaces them in time.
func (p *Pods) keepTokens(ctx context.Context, key cache.ObjectName, pod *corev1.Pod, shadow *v1alpha1.ShadowPod, t *twin) error {
	if t.tokens == nil || shadow.Annotations[v1alpha1.AnnotationTokenSecret] == "" || !translate.ReachesConsumerAPI(pod, p.destination()) {
		return nil
	}
	wanted := translate.Tokens(pod)
	if len(wanted) == 0 {
		return nil
	}
	existing := t.tokenSecret(translate.TokenSecretName(pod.UID))
	if existing != nil && translate.TokenOwner(existing).UID == shadow.UID {
		if left := existing.RenewAfter.Sub(p.clock.Now()); left > 0 {
			p.queue.AddAfter(key, left)
			return nil
		}
	}
	if last := p.states.read(key).local.delivery; last != nil && last.pod == pod.UID {
		if left := last.until.Sub(p.clock.Now()); left > 0 {
			p.queue.AddAfter(key, left)
			return nil
		}
	}
	account := cache.NewObjectName(pod.Namespace, pod.Spec.ServiceAccountName)
	if left := p.refusedAccounts.left(account, p.clock.Now()); left > 0 {
		p.queue.AddAfter(key, left)
		return nil
	}
	secret, err := p.issue(ctx, pod, shadow, wanted)
	if err != nil {
		if apierrors.IsForbidden(err) {
			p.refusedAccounts.add(account, p.clock.Now())
		}
		return p.tokenTrouble(pod, err)
	}
	if err := p.deliver(ctx, existing, secret); err != nil {
		p.setDelivery(key, pod.UID, deliveryPause)
		return p.tokenTrouble(pod, err)
	}
	p.setDelivery(key, pod.UID, tokenPause)
	p.metrics.tokens.Add(float64(len(wanted)))
	klog.FromContext(ctx).V(2).Info("Delivered tokens", "secret", klog.KObj(secret), "renewAfter", translate.RenewAfter(secret))
	return nil
}

func (p *Pods) setDelivery(key cache.ObjectName, pod types.UID, pause time.Duration) {
	until := p.clock.Now().Add(pause)
	p.states.change(key, func(s *podState) { s.local.delivery = &delivery{pod: pod, until: until} })
}

// keepLastTokens replaces the tokens of a pod that is being deleted, since its
// grace period can be longer than their life.
func (p *Pods) keepLastTokens(ctx context.Context, key cache.ObjectName, pod *corev1.Pod, shadow *v1alpha1.ShadowPod, t *twin) error {
	if t.tokens == nil || t.tokenSecret(translate.TokenSecretName(pod.UID)) == nil {
		return nil
	}
	return p.keepTokens(ctx, key, pod, shadow, t)
}

// issue asks this cluster for the tokens. They are good while the pod exists.
func (p *Pods) issue(ctx context.Context, pod *corev1.Pod, shadow *v1alpha1.ShadowPod, wanted []translate.Token) (*corev1.Secret, error) {
	accounts := p.local.CoreV1().ServiceAccounts(pod.Namespace)
	tokens := make(map[string]string, len(wanted))
	var renewAfter time.Time
	for _, token := range wanted {
		issued := p.clock.Now()
		if len(token.Spec.Audiences) == 0 && p.homeAudience != "" {
			token.Spec.Audiences = []string{p.homeAudience}
		}
		answer, err := accounts.CreateToken(ctx, pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{Spec: token.Spec}, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("asking for a token of service account %s: %w", pod.Spec.ServiceAccountName, err)
		}
		tokens[token.Key] = answer.Status.Token
		// All are in one Secret, and replaced together.
		at := translate.Renewal(issued, answer.Status.ExpirationTimestamp.Time, rand.Float64())
		if renewAfter.IsZero() || at.Before(renewAfter) {
			renewAfter = at
		}
	}
	return translate.TokenSecret(pod, shadow, tokens, renewAfter, p.to), nil
}

// deliver stores the Secret on the provider. What has its name and is none of
// ours is left alone.
func (p *Pods) deliver(ctx context.Context, existing *translate.RemoteTokens, secret *corev1.Secret) error {
	secrets := p.remote.Core.CoreV1().Secrets(secret.Namespace)
	var err error
	if existing == nil {
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	} else {
		secret.ResourceVersion = existing.ResourceVersion
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("delivering tokens to namespace %s of %s: %w", secret.Namespace, p.provider, err)
	}
	return nil
}

// tokenTrouble tells the owner of a pod what keeps its tokens from it, and returns
// the error: it is tried again.
func (p *Pods) tokenTrouble(pod *corev1.Pod, err error) error {
	if p.clock.Since(pod.CreationTimestamp.Time) < tokenGrace {
		return err
	}
	if remote.Refused(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		p.recorder.Event(pod, corev1.EventTypeWarning, ReasonTokenRefused, translate.Message(err.Error()))
	}
	return err
}
