// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflect

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/reflection"
)

// homeSecrets are the types of Secrets that never leave, and so are never
// copies: tokens of this cluster, what Helm keeps of its releases, and what
// peerings and their pods are made of.
var homeSecrets = []corev1.SecretType{
	corev1.SecretTypeServiceAccountToken,
	corev1.SecretTypeBootstrapToken,
	"helm.sh/release.v1",
	v1alpha1.SecretTypeInvitation,
	v1alpha1.SecretTypeIdentity,
	v1alpha1.SecretTypeTokens,
}

// LeavingSecrets selects the Secrets that may leave, so that nobody has to
// read the others.
func LeavingSecrets() fields.Selector {
	var all []fields.Selector
	for _, home := range homeSecrets {
		all = append(all, fields.OneTermNotEqualSelector("type", string(home)))
	}
	return fields.AndSelectors(all...)
}

// Secret is the copy of a local Secret; nil if it stays home.
func Secret(local *corev1.Secret, twin string, to Destination) *corev1.Secret {
	leaves := LeavingSecrets().Matches(fields.Set{"type": string(local.Type)})
	if reflection.StaysHome(local) || !leaves {
		return nil
	}
	wanted := local.DeepCopy()
	return &corev1.Secret{
		ObjectMeta: copyMeta(local, local.Name, twin, to),
		Immutable:  wanted.Immutable,
		Data:       wanted.Data,
		Type:       wanted.Type,
	}
}

// UpdateSecret makes an existing copy the wanted one, as far as it can be
// changed.
func UpdateSecret(existing, wanted *corev1.Secret) Change {
	same := equality.Semantic.DeepEqual(existing.Data, wanted.Data)
	if existing.Type != wanted.Type || ptr.Deref(existing.Immutable, false) && !(same && ptr.Deref(wanted.Immutable, false)) {
		return Replace
	}
	differs := updateMeta(&existing.ObjectMeta, &wanted.ObjectMeta)
	if !same || !ptr.Equal(existing.Immutable, wanted.Immutable) {
		existing.Data, existing.Immutable, differs = wanted.Data, wanted.Immutable, true
	}
	return changed(differs)
}
