// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
)

// ConsumerAPI is the address of this cluster's API server as pods on the provider reach it. An
// empty host means that they do not reach it.
type ConsumerAPI struct {
	// Host is an address or a name, Port a number.
	Host, Port string
}

// apiServerName is in the certificate of every API server.
const apiServerName = "kubernetes.default.svc"

// apiServerNames are the names under which pods look up their API server.
var apiServerNames = []string{apiServerName, "kubernetes.default.svc.cluster.local", "kubernetes.default", "kubernetes"}

// Variables from which clients in pods read the address of their API server.
const (
	envServiceHost      = "KUBERNETES_SERVICE_HOST"
	envServicePort      = "KUBERNETES_SERVICE_PORT"
	envServicePortHTTPS = "KUBERNETES_SERVICE_PORT_HTTPS"
)

// ReachesConsumerAPI reports whether a pod on the provider uses the API server of this cluster: it
// is reachable, and neither the node nor the pod disables it.
func ReachesConsumerAPI(pod *corev1.Pod, to Destination) bool {
	return to.ConsumerAPI.Host != "" && podspec.UsesConsumerAPI(pod)
}

// redirectToConsumerAPI returns the specification of a pod whose clients connect to the API server
// of this cluster: the tokens in its volumes come from a Secret, and host names and variables
// point to that server. It also returns the name of the Secret, or an empty string if the pod
// mounts no token. It is applied before the rest of the translation.
func redirectToConsumerAPI(pod *corev1.Pod, to Destination) (*corev1.PodSpec, string) {
	if !ReachesConsumerAPI(pod, to) {
		return &pod.Spec, ""
	}
	spec, secret := pod.Spec.DeepCopy(), ""
	for i := range spec.Volumes {
		if useTokenSecret(&spec.Volumes[i], i, TokenSecretName(pod.UID)) {
			secret = TokenSecretName(pod.UID)
		}
	}
	host := to.ConsumerAPI.Host
	if address, err := netip.ParseAddr(host); err == nil {
		spec.HostAliases = aliases(spec.HostAliases, address.String())
		// The certificate contains the name, but not always the address.
		host = apiServerName
	}
	eachContainer(spec, func(container *corev1.Container) {
		container.Env = serviceEnv(container.Env, host, to.ConsumerAPI.Port)
	})
	return spec, secret
}

// useTokenSecret replaces the token sources of a volume by a Secret, and reports whether there
// were any.
func useTokenSecret(volume *corev1.Volume, index int, secret string) bool {
	if volume.Projected == nil {
		return false
	}
	found := false
	sources := volume.Projected.Sources
	for j := range sources {
		if token := sources[j].ServiceAccountToken; token != nil {
			found = true
			sources[j] = corev1.VolumeProjection{Secret: &corev1.SecretProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: secret},
				Items:                []corev1.KeyToPath{{Key: tokenKey(index, j), Path: token.Path}},
			}}
		}
	}
	return found
}

func isToken(source corev1.VolumeProjection) bool { return source.ServiceAccountToken != nil }

// keepTokenSecret sets the annotation about tokens of a desired shadow pod to that of the existing
// one: volumes of a running pod do not change.
func keepTokenSecret(existing, desired *v1alpha1.ShadowPod) {
	delete(desired.Annotations, v1alpha1.AnnotationTokenSecret)
	if secret, ok := existing.Annotations[v1alpha1.AnnotationTokenSecret]; ok {
		desired.Annotations[v1alpha1.AnnotationTokenSecret] = secret
	}
}

// aliases adds the names of the API server, except those that the pod has aliases for.
func aliases(own []corev1.HostAlias, address string) []corev1.HostAlias {
	names := slices.DeleteFunc(slices.Clone(apiServerNames), func(name string) bool {
		hasName := func(alias corev1.HostAlias) bool { return slices.Contains(alias.Hostnames, name) }
		return slices.ContainsFunc(own, hasName)
	})
	if len(names) == 0 {
		return own
	}
	return append(own, corev1.HostAlias{IP: address, Hostnames: names})
}

// serviceEnv adds the variables with the address of the API server, unless the container sets
// them. They come first, so that other variables can refer to them.
func serviceEnv(own []corev1.EnvVar, host, port string) []corev1.EnvVar {
	if slices.ContainsFunc(
		own,
		func(env corev1.EnvVar) bool { return env.Name == envServiceHost || env.Name == envServicePort },
	) {
		return own
	}
	return append([]corev1.EnvVar{
		{Name: envServiceHost, Value: host},
		{Name: envServicePort, Value: port},
		{Name: envServicePortHTTPS, Value: port},
	}, own...)
}
