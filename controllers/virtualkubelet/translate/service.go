// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/reflection"
)

// Service returns the desired reflected object of a local Service; nil if it is not reflected. Its selector is the
// same, because remote pods have the labels of local pods. The provider allocates addresses, node ports and load
// balancers. A load balancer gets a class that the provider offers, and none if it offers none.
func Service(local *corev1.Service, namespace string, to Destination) *corev1.Service {
	if reflection.Excludes(local, to.DestinationID) || isKubernetes(local.Namespace, local.Name) {
		return nil
	}
	from := local.DeepCopy().Spec
	spec := corev1.ServiceSpec{
		Type:                          from.Type,
		Ports:                         from.Ports,
		Selector:                      from.Selector,
		ExternalName:                  from.ExternalName,
		SessionAffinity:               from.SessionAffinity,
		SessionAffinityConfig:         from.SessionAffinityConfig,
		ExternalTrafficPolicy:         from.ExternalTrafficPolicy,
		InternalTrafficPolicy:         from.InternalTrafficPolicy,
		TrafficDistribution:           from.TrafficDistribution,
		PublishNotReadyAddresses:      from.PublishNotReadyAddresses,
		AllocateLoadBalancerNodePorts: from.AllocateLoadBalancerNodePorts,
		LoadBalancerSourceRanges:      from.LoadBalancerSourceRanges,
		IPFamilyPolicy:                from.IPFamilyPolicy,
	}
	if from.Type == corev1.ServiceTypeLoadBalancer {
		spec.LoadBalancerClass = classOf(ptr.Deref(from.LoadBalancerClass, ""), to.Classes.LoadBalancer)
	}
	if isHeadless(&from) {
		spec.ClusterIP = corev1.ClusterIPNone
	}
	if ptr.Deref(spec.IPFamilyPolicy, "") == corev1.IPFamilyPolicyRequireDualStack {
		// The provider may have one IP family only.
		spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyPreferDualStack)
	}
	if !keepsNodePorts(local) {
		for i := range spec.Ports {
			spec.Ports[i].NodePort = 0
		}
	}
	return &corev1.Service{ObjectMeta: reflectedMeta(local, local.Name, namespace, to), Spec: spec}
}

// isKubernetes reports whether a Service is the API server's, kubernetes in namespace default.
func isKubernetes(namespace, name string) bool {
	return namespace == metav1.NamespaceDefault && name == "kubernetes"
}

// UpdateService changes an existing reflected Service into the desired one, and keeps the fields that the provider set.
// It returns Replace if only one of them is headless.
func UpdateService(existing, desired *corev1.Service) Change {
	spec := desired.DeepCopy().Spec
	if hasAddress(&existing.Spec) && hasAddress(&spec) {
		if isHeadless(&existing.Spec) != isHeadless(&spec) {
			return Replace
		}
		spec.ClusterIP, spec.ClusterIPs = existing.Spec.ClusterIP, existing.Spec.ClusterIPs
		spec.IPFamilies = existing.Spec.IPFamilies
		if spec.IPFamilyPolicy == nil {
			spec.IPFamilyPolicy = existing.Spec.IPFamilyPolicy
		}
	}
	if spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer {
		keepNodePorts(spec.Ports, existing.Spec.Ports)
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer && existing.Spec.Type == corev1.ServiceTypeLoadBalancer {
		// The class is immutable, and some load balancer controllers write the address that they chose to loadBalancerIP.
		spec.LoadBalancerClass, spec.LoadBalancerIP = existing.Spec.LoadBalancerClass, existing.Spec.LoadBalancerIP
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer &&
		spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		spec.HealthCheckNodePort = existing.Spec.HealthCheckNodePort
	}
	differs := updateMeta(&existing.ObjectMeta, &desired.ObjectMeta)
	if !equality.Semantic.DeepEqual(existing.Spec, spec) {
		existing.Spec, differs = spec, true
	}
	return changed(differs)
}

// keepsNodePorts reports whether a Service has the annotation that requests the same node ports on the provider.
func keepsNodePorts(local *corev1.Service) bool {
	value, annotated := local.Annotations[v1alpha1.AnnotationForceRemoteNodePort]
	return annotated && value != "false"
}

// keepNodePorts sets the node port of each port that requests none to the one that the provider allocated.
func keepNodePorts(desired, existing []corev1.ServicePort) {
	for i := range desired {
		allocated := slices.IndexFunc(existing, func(port corev1.ServicePort) bool {
			return port.Port == desired[i].Port && port.Protocol == desired[i].Protocol
		})
		if desired[i].NodePort == 0 && allocated >= 0 {
			desired[i].NodePort = existing[allocated].NodePort
		}
	}
}

func isHeadless(spec *corev1.ServiceSpec) bool { return spec.ClusterIP == corev1.ClusterIPNone }

// hasAddress reports whether a Service has a clusterIP, which is an address or None.
func hasAddress(spec *corev1.ServiceSpec) bool { return spec.Type != corev1.ServiceTypeExternalName }
