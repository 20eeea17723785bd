// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/reflection"
)

// annotationIngressClass is the deprecated annotation with the name of the IngressClass.
const annotationIngressClass = "kubernetes.io/ingress.class"

// Ingress returns the desired reflected object of a local Ingress; nil if it is not reflected. It has the class of the
// local Ingress if the provider offers it, otherwise the first offered class, and no class if none is offered.
func Ingress(local *networkingv1.Ingress, namespace string, to Destination) *networkingv1.Ingress {
	if reflection.Excludes(local, to.DestinationID) {
		return nil
	}
	from := local.DeepCopy()
	class := ptr.Deref(from.Spec.IngressClassName, from.Annotations[annotationIngressClass])
	delete(from.Annotations, annotationIngressClass)
	return &networkingv1.Ingress{
		ObjectMeta: reflectedMeta(from, local.Name, namespace, to),
		Spec: networkingv1.IngressSpec{
			IngressClassName: classOf(class, to.Classes.Ingress),
			DefaultBackend:   from.Spec.DefaultBackend, TLS: from.Spec.TLS, Rules: from.Spec.Rules,
		},
	}
}

// UpdateIngress changes an existing reflected Ingress into the desired one. If the desired one has no class, the class
// that the provider set remains.
func UpdateIngress(existing, desired *networkingv1.Ingress) Change {
	spec := desired.DeepCopy().Spec
	if spec.IngressClassName == nil {
		spec.IngressClassName = existing.Spec.IngressClassName
	}
	differs := updateMeta(&existing.ObjectMeta, &desired.ObjectMeta)
	if !equality.Semantic.DeepEqual(existing.Spec, spec) {
		existing.Spec, differs = spec, true
	}
	return changed(differs)
}
