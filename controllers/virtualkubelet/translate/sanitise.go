// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"net/netip"
	"regexp"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/federation/apiserver/printable"
)

const (
	// MaxText is the maximum length of a provider's message, in bytes.
	MaxText = 1024
	// maxReason is the maximum length of a provider's reason, in bytes.
	maxReason = 128
	// maxAddresses is the maximum number of a pod's addresses, one per IP family.
	maxAddresses = 2
)

// Message returns a provider's message without control characters, cut to MaxText.
func Message(s string) string { return text(s) }

func text(s string) string { return printable.Text(s, MaxText) }

func reason(s string) string { return printable.Text(s, maxReason) }

// versionPattern matches the versions of Kubernetes and of its distributions, for example v1.36.1-gke.1200+a1b2c3.
var versionPattern = regexp.MustCompile(`^v\d{1,3}\.\d{1,3}\.\d{1,3}[-+.0-9A-Za-z]{0,40}$`)

// Version returns the version of a provider if it has the form of a version of Kubernetes, and otherwise "unknown".
func Version(s string) string {
	if !versionPattern.MatchString(s) {
		return "unknown"
	}
	return s
}

// addresses returns the valid addresses of a remote pod: unicast addresses, at most one per IP family. It omits
// loopback and link-local addresses, because endpoints with them would send traffic to the consumer's own nodes.
func addresses(from *corev1.PodStatus) []corev1.PodIP {
	var result []corev1.PodIP
	hasFamily := map[bool]bool{}
	for _, ip := range from.PodIPs {
		addr, err := netip.ParseAddr(ip.IP)
		if err != nil || addr.Zone() != "" || addr.Is4In6() || !addr.IsGlobalUnicast() || hasFamily[addr.Is4()] {
			continue
		}
		hasFamily[addr.Is4()] = true
		if result = append(result, corev1.PodIP{IP: addr.String()}); len(result) == maxAddresses {
			break
		}
	}
	return result
}

// sanitise bounds the texts and amounts in a container's status that a provider reported, and drops fields that refer
// to objects of the provider. spec is the container in the local pod. before is its status in the local pod and may be
// nil.
func sanitise(s *corev1.ContainerStatus, spec *corev1.Container, before *corev1.ContainerStatus) {
	s.Image, s.ImageID, s.ContainerID = text(s.Image), text(s.ImageID), text(s.ContainerID)
	for _, state := range []*corev1.ContainerState{&s.State, &s.LastTerminationState} {
		if w := state.Waiting; w != nil {
			w.Reason, w.Message = reason(w.Reason), text(w.Message)
		}
		if t := state.Terminated; t != nil {
			// The container writes the termination message, of up to 4096 bytes.
			t.Reason, t.Message, t.ContainerID = reason(t.Reason), printable.Text(t.Message, 4096), text(t.ContainerID)
		}
	}
	// VolumeMounts, User and AllocatedResourcesStatus refer to volumes, users and devices of the provider's node.
	s.VolumeMounts, s.User, s.AllocatedResourcesStatus = nil, nil, nil
	if before == nil {
		before = &corev1.ContainerStatus{}
	}
	s.Resources = boundedRequirements(s.Resources, spec.Resources, before.Resources)
	s.AllocatedResources = boundedAmounts(s.AllocatedResources, spec.Resources.Requests, before.AllocatedResources)
}

// TranslateAddresses returns a pod status with translated addresses. toLocal translates an address; addresses for which
// it returns false are omitted. The result shares memory with the argument.
func TranslateAddresses(status *corev1.PodStatus, toLocal func(address string) (string, bool)) corev1.PodStatus {
	translated := *status
	translated.PodIP, translated.PodIPs = "", nil
	for _, ip := range status.PodIPs {
		if address, ok := toLocal(ip.IP); ok {
			translated.PodIPs = append(translated.PodIPs, corev1.PodIP{IP: address})
		}
	}
	if len(translated.PodIPs) > 0 {
		translated.PodIP = translated.PodIPs[0].IP
	}
	return translated
}
