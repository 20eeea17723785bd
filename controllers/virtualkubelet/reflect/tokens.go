// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflect

import (
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

const (
	// Tokens are replaced when this share of their life is over, at the latest,
	// and after maxTokenAge anyhow: as the kubelet does it.
	renewalShare = 0.8
	maxTokenAge  = 24 * time.Hour
	// renewalJitter is the share of that time within which renewals are spread.
	renewalJitter = 0.1
)

// Token is one that a pod mounts.
type Token struct {
	// Key is where it is in the Secret.
	Key string
	// Spec is what to ask for. The token ends with the pod.
	Spec authenticationv1.TokenRequestSpec
}

// Tokens are those that a pod mounts of its service account.
func Tokens(pod *corev1.Pod) []Token {
	var all []Token
	for i := range pod.Spec.Volumes {
		projected := pod.Spec.Volumes[i].Projected
		if projected == nil {
			continue
		}
		for j := range projected.Sources {
			source := projected.Sources[j].ServiceAccountToken
			if source == nil {
				continue
			}
			token := Token{Key: tokenKey(i, j), Spec: authenticationv1.TokenRequestSpec{
				ExpirationSeconds: source.ExpirationSeconds,
				BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
			}}
			if source.Audience != "" {
				token.Spec.Audiences = []string{source.Audience}
			}
			all = append(all, token)
		}
	}
	return all
}

// tokenKey names the token of one source of one volume. Neither moves while
// the pod lives.
func tokenKey(volume, source int) string { return fmt.Sprintf("token-%d-%d", volume, source) }

// TokenSecretName is the name, in a twin namespace, of the Secret with the
// tokens of a local pod.
func TokenSecretName(pod types.UID) string { return "tokens-" + string(pod) }

// TokenSecret is the Secret with the tokens of a local pod, by key. It goes
// with the shadow pod.
func TokenSecret(pod *corev1.Pod, shadow *v1alpha1.ShadowPod, tokens map[string]string, renewAfter time.Time, to Destination) *corev1.Secret {
	data := make(map[string][]byte, len(tokens))
	for key, token := range tokens {
		data[key] = []byte(token)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: shadow.Namespace,
			Name:      TokenSecretName(pod.UID),
			Labels:    to.Labels(),
			Annotations: map[string]string{
				v1alpha1.AnnotationOriginNamespace: pod.Namespace,
				v1alpha1.AnnotationRenewAfter:      renewAfter.UTC().Format(time.RFC3339),
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ShadowPod", Name: shadow.Name, UID: shadow.UID,
			}},
		},
		Type: v1alpha1.SecretTypeTokens,
		Data: data,
	}
}

// RemoteTokens is what is kept of a Secret with tokens of a pod: whose it is, and
// how long they are good.
type RemoteTokens struct {
	metav1.ObjectMeta
	// RenewAfter is when they are to be replaced; zero is at once.
	RenewAfter time.Time
}

// TokenOwner is the shadow pod that a Secret with tokens belongs to.
func TokenOwner(secret metav1.Object) metav1.OwnerReference {
	for _, owner := range secret.GetOwnerReferences() {
		if owner.Kind == "ShadowPod" {
			return owner
		}
	}
	return metav1.OwnerReference{}
}

// RenewAfter is when the tokens of a Secret are to be replaced: at once, if it
// does not say so.
func RenewAfter(secret metav1.Object) time.Time {
	at, err := time.Parse(time.RFC3339, secret.GetAnnotations()[v1alpha1.AnnotationRenewAfter])
	if err != nil {
		return time.Time{}
	}
	return at
}

// Renewal is when a token is to be replaced that was issued and expires at
// these times. chance, between 0 and 1, spreads those that were issued
// together.
func Renewal(issued, expires time.Time, chance float64) time.Time {
	life := time.Duration(renewalShare * float64(expires.Sub(issued)))
	life = min(life, maxTokenAge)
	return issued.Add(life - time.Duration(renewalJitter*chance*float64(life)))
}
