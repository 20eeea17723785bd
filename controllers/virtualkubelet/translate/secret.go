// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/reflection"
)

// localSecretTypes are the types of Secrets that are never reflected: tokens of the local cluster, Helm releases, and
// the Secrets that peerings and virtual kubelets create.
var localSecretTypes = []corev1.SecretType{
	corev1.SecretTypeServiceAccountToken,
	corev1.SecretTypeBootstrapToken,
	"helm.sh/release.v1",
	v1alpha1.SecretTypeInvitation,
	v1alpha1.SecretTypeIdentity,
	v1alpha1.SecretTypeTokens,
}

// ReflectableSecrets returns the field selector of Secrets that may be reflected, so that virtual kubelets never read
// others.
func ReflectableSecrets() fields.Selector {
	var all []fields.Selector
	for _, local := range localSecretTypes {
		all = append(all, fields.OneTermNotEqualSelector("type", string(local)))
	}
	return fields.AndSelectors(all...)
}

// Secret returns the desired reflected object of a local Secret; nil if it is not reflected.
func Secret(local *corev1.Secret, namespace string, to Destination) *corev1.Secret {
	reflectable := ReflectableSecrets().Matches(fields.Set{"type": string(local.Type)})
	if reflection.Excludes(local, to.DestinationID) || !reflectable {
		return nil
	}
	desired := local.DeepCopy()
	return &corev1.Secret{
		ObjectMeta: reflectedMeta(local, local.Name, namespace, to),
		Immutable:  desired.Immutable,
		Data:       desired.Data,
		Type:       desired.Type,
	}
}

// UpdateSecret changes an existing reflected Secret into the desired one. It returns Replace if the types differ, or if
// the existing one is immutable and differs.
func UpdateSecret(existing, desired *corev1.Secret) Change {
	same := equality.Semantic.DeepEqual(existing.Data, desired.Data)
	if existing.Type != desired.Type ||
		ptr.Deref(existing.Immutable, false) && !(same && ptr.Deref(desired.Immutable, false)) {
		return Replace
	}
	differs := updateMeta(&existing.ObjectMeta, &desired.ObjectMeta)
	if !same || !ptr.Equal(existing.Immutable, desired.Immutable) {
		existing.Data, existing.Immutable, differs = desired.Data, desired.Immutable, true
	}
	return changed(differs)
}
