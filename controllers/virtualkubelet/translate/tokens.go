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
	// renewalShare is the share of its lifetime after which a token is renewed, at the latest after maxTokenAge. A kubelet
	// has the same values.
	renewalShare = 0.8
	maxTokenAge  = 24 * time.Hour
	// renewalJitter is the maximum share by which a renewal is earlier, so that tokens that were issued together are not
	// renewed together.
	renewalJitter = 0.1
)

// Token is a token of the pod's ServiceAccount that a volume of the pod contains.
type Token struct {
	// Key is the key of the token in the Secret.
	Key string
	// Spec is the request for the token, bound to the pod.
	Spec authenticationv1.TokenRequestSpec
}

// Tokens returns the ServiceAccount tokens that the volumes of a pod contain.
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

// tokenKey returns the key, in the Secret, of the token in one source of one volume. The indexes do not change, because
// volumes are immutable.
func tokenKey(volume, source int) string { return fmt.Sprintf("token-%d-%d", volume, source) }

// TokenSecretName returns the name of the Secret with a local pod's tokens in the remote namespace.
func TokenSecretName(pod types.UID) string { return "tokens-" + string(pod) }

// TokenSecret returns the Secret with the tokens of a local pod, by tokenKey. Its owner is the shadow pod, so that both
// are deleted together.
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

// RemoteTokens is a Secret with tokens as it is cached, without the tokens.
type RemoteTokens struct {
	metav1.ObjectMeta
	// RenewAfter is the time at which the tokens are renewed; zero means immediately.
	RenewAfter time.Time
}

// TokenOwner returns the reference to the shadow pod that owns a Secret with tokens; the zero value if there is none.
func TokenOwner(secret metav1.Object) metav1.OwnerReference {
	for _, owner := range secret.GetOwnerReferences() {
		if owner.Kind == "ShadowPod" {
			return owner
		}
	}
	return metav1.OwnerReference{}
}

// RenewAfter returns the time at which the tokens in a Secret are renewed, from its annotation. It returns the zero
// time, for immediately, if the annotation is missing or invalid.
func RenewAfter(secret metav1.Object) time.Time {
	at, err := time.Parse(time.RFC3339, secret.GetAnnotations()[v1alpha1.AnnotationRenewAfter])
	if err != nil {
		return time.Time{}
	}
	return at
}

// Renewal returns the time at which a token with this lifetime is renewed. chance, between 0 and 1, makes the renewal
// earlier by up to renewalJitter.
func Renewal(issued, expires time.Time, chance float64) time.Time {
	life := time.Duration(renewalShare * float64(expires.Sub(issued)))
	life = min(life, maxTokenAge)
	return issued.Add(life - time.Duration(renewalJitter*chance*float64(life)))
}
