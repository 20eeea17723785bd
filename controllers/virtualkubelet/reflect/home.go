// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflect

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/podspec"
)

// Home is where the API server of this cluster is, as the pods on a provider
// reach it. Without a host it is not known, and they do not.
type Home struct {
	// Host is an address or a name, Port a number.
	Host, Port string
}

// apiServerName is in the certificate of every API server, under whatever
// address it is reached.
const apiServerName = "kubernetes.default.svc"

// apiServerNames are the names by which pods know their API server.
var apiServerNames = []string{apiServerName, "kubernetes.default.svc.cluster.local", "kubernetes.default", "kubernetes"}

// Variables by which pods find their API server.
const (
	envServiceHost      = "KUBERNETES_SERVICE_HOST"
	envServicePort      = "KUBERNETES_SERVICE_PORT"
	envServicePortHTTPS = "KUBERNETES_SERVICE_PORT_HTTPS"
)

// ReachesHome tells whether a pod talks to the API server of its home from a
// provider: nobody has said otherwise, neither for the node nor for the pod.
func ReachesHome(pod *corev1.Pod, to Destination) bool {
	return to.Home.Host != "" && podspec.TalksHome(pod)
}

// leadHome is the specification of a pod as it has to be before the rest is
// translated, so that its clients find the API server of home: the tokens in
// its volumes come from a Secret, and names and variables lead there. It
// returns the name of that Secret, or nothing if there is no token in it.
func leadHome(pod *corev1.Pod, to Destination) (*corev1.PodSpec, string) {
	if !ReachesHome(pod, to) {
		return &pod.Spec, ""
	}
	spec, secret := pod.Spec.DeepCopy(), ""
	for i := range spec.Volumes {
		if takeTokens(&spec.Volumes[i], i, TokenSecretName(pod.UID)) {
			secret = TokenSecretName(pod.UID)
		}
	}
	host := to.Home.Host
	if address, err := netip.ParseAddr(host); err == nil {
		spec.HostAliases = aliases(spec.HostAliases, address.String())
		// The certificate has the name, but not always the address.
		host = apiServerName
	}
	eachContainer(spec, func(container *corev1.Container) { container.Env = serviceEnv(container.Env, host, to.Home.Port) })
	return spec, secret
}

// takeTokens has a volume take its tokens from a Secret. It tells whether
// there are any.
func takeTokens(volume *corev1.Volume, index int, secret string) bool {
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

// keepTokenSecret has a wanted shadow pod say of its volumes what the existing
// one says: they cannot change, whatever is wanted by now.
func keepTokenSecret(existing, wanted *v1alpha1.ShadowPod) {
	delete(wanted.Annotations, v1alpha1.AnnotationTokenSecret)
	if secret, ok := existing.Annotations[v1alpha1.AnnotationTokenSecret]; ok {
		wanted.Annotations[v1alpha1.AnnotationTokenSecret] = secret
	}
}

// aliases adds the names of the API server, but those that the pod has given
// to somebody else.
func aliases(own []corev1.HostAlias, address string) []corev1.HostAlias {
	names := slices.DeleteFunc(slices.Clone(apiServerNames), func(name string) bool {
		return slices.ContainsFunc(own, func(alias corev1.HostAlias) bool { return slices.Contains(alias.Hostnames, name) })
	})
	if len(names) == 0 {
		return own
	}
	return append(own, corev1.HostAlias{IP: address, Hostnames: names})
}

// serviceEnv adds the variables that lead to the API server, unless the
// container leads its clients elsewhere. They come first, so that others can
// refer to them.
func serviceEnv(own []corev1.EnvVar, host, port string) []corev1.EnvVar {
	if slices.ContainsFunc(own, func(env corev1.EnvVar) bool { return env.Name == envServiceHost || env.Name == envServicePort }) {
		return own
	}
	return append([]corev1.EnvVar{
		{Name: envServiceHost, Value: host},
		{Name: envServicePort, Value: port},
		{Name: envServicePortHTTPS, Value: port},
	}, own...)
}
