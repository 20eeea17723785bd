// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

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
	// renewalShare is the share of its lifetime after which a token is replaced, at the latest after maxTokenAge. The
	// kubelet has the same values.
	renewalShare = 0.8
	maxTokenAge  = 24 * time.Hour
	// renewalJitter is the share of that time over which renewals are spread.
	renewalJitter = 0.1
)

// Token is a service account token that a pod mounts.
type Token struct {
	// Key is its key in the Secret.
	Key string
	// Spec is the requested token, which expires with the pod.
	Spec authenticationv1.TokenRequestSpec
}

// Tokens returns the tokens of its service account that a pod mounts.
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
				BoundObjectRef: &authenticationv1.BoundObjectReference{
					Kind:       "Pod",
					APIVersion: "v1",
					Name:       pod.Name,
					UID:        pod.UID,
				},
			}}
			if source.Audience != "" {
				token.Spec.Audiences = []string{source.Audience}
			}
			all = append(all, token)
		}
	}
	return all
}

// tokenKey names the token of one source of one volume. Neither index changes while the pod
// exists.
func tokenKey(volume, source int) string { return fmt.Sprintf("token-%d-%d", volume, source) }

// TokenSecretName returns the name, in the remote namespace, of the Secret with the tokens of a
// local pod.
func TokenSecretName(pod types.UID) string { return "tokens-" + string(pod) }

// TokenSecret returns the Secret with the tokens of a local pod, by key. It is deleted with the
// shadow pod.
func TokenSecret(
	pod *corev1.Pod,
	shadow *v1alpha1.ShadowPod,
	tokens map[string]string,
	renewAfter time.Time,
	to Destination,
) *corev1.Secret {
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

// RemoteTokens is the part of a Secret with tokens of a pod that is cached.
type RemoteTokens struct {
	metav1.ObjectMeta
	// RenewAfter is the time after which they are replaced; zero means at once.
	RenewAfter time.Time
}

// TokenOwner returns the reference to the shadow pod that owns a Secret with tokens.
func TokenOwner(secret metav1.Object) metav1.OwnerReference {
	for _, owner := range secret.GetOwnerReferences() {
		if owner.Kind == "ShadowPod" {
			return owner
		}
	}
	return metav1.OwnerReference{}
}

// RenewAfter returns the time after which the tokens of a Secret are replaced: at once if it has
// no such annotation.
func RenewAfter(secret metav1.Object) time.Time {
	at, err := time.Parse(time.RFC3339, secret.GetAnnotations()[v1alpha1.AnnotationRenewAfter])
	if err != nil {
		return time.Time{}
	}
	return at
}

// Renewal returns the time after which a token is replaced that was issued and expires at these
// times. chance, between 0 and 1, spreads the renewal of tokens that were issued together.
func Renewal(issued, expires time.Time, chance float64) time.Time {
	life := time.Duration(renewalShare * float64(expires.Sub(issued)))
	life = min(life, maxTokenAge)
	return issued.Add(life - time.Duration(renewalJitter*chance*float64(life)))
}
