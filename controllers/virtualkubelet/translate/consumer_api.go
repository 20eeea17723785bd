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

// ConsumerAPI is the endpoint at which remote pods reach the consumer's API server. An empty Host means that they
// cannot reach it.
type ConsumerAPI struct {
	// Host is an IP address or a DNS name, and Port a decimal number.
	Host, Port string
}

// apiServerName is a DNS name that the certificate of every API server contains.
const apiServerName = "kubernetes.default.svc"

// apiServerNames are the DNS names by which clients in pods may connect to the API server.
var apiServerNames = []string{apiServerName, "kubernetes.default.svc.cluster.local", "kubernetes.default", "kubernetes"}

// Environment variables from which clients in pods read the endpoint of the API server.
const (
	envServiceHost      = "KUBERNETES_SERVICE_HOST"
	envServicePort      = "KUBERNETES_SERVICE_PORT"
	envServicePortHTTPS = "KUBERNETES_SERVICE_PORT_HTTPS"
)

// ReachesConsumerAPI reports whether a remote pod uses the consumer's API server: the destination has an endpoint of
// the API server, and the pod does not disable the use.
func ReachesConsumerAPI(pod *corev1.Pod, to Destination) bool {
	return to.ConsumerAPI.Host != "" && podspec.UsesConsumerAPI(pod)
}

// redirectToConsumerAPI returns a copy of a pod's specification with which clients in the pod connect to the consumer's
// API server: its token volumes use a Secret, and its host aliases and variables have the endpoint. It also returns the
// name of the Secret, which is empty if the pod mounts no token. If the pod does not use that API server, it returns
// the specification itself, unchanged. It must be applied before other translations, because the keys of the Secret are
// derived from the positions of volumes.
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
		// The certificate has the name, but not always the address.
		host = apiServerName
	}
	eachContainer(spec, func(container *corev1.Container) {
		container.Env = serviceEnv(container.Env, host, to.ConsumerAPI.Port)
	})
	return spec, secret
}

// useTokenSecret replaces the token sources of a volume by the Secret, and reports whether the volume had any. index is
// the position of the volume in the pod, from which the keys of the Secret are derived.
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

// keepTokenSecret sets the annotation with the name of the token Secret on a desired shadow pod to the value on the
// existing one, because the volumes of an existing pod cannot change.
func keepTokenSecret(existing, desired *v1alpha1.ShadowPod) {
	delete(desired.Annotations, v1alpha1.AnnotationTokenSecret)
	if secret, ok := existing.Annotations[v1alpha1.AnnotationTokenSecret]; ok {
		desired.Annotations[v1alpha1.AnnotationTokenSecret] = secret
	}
}

// aliases adds a host alias with this address for those apiServerNames for which the pod has none.
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

// serviceEnv adds the variables with the endpoint of the API server, unless the container sets the host or the port
// itself. They come first, so that later variables can refer to them.
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
