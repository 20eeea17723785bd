// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflect

import (
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
)

const (
	// maxText bounds, in bytes, a message of a provider.
	maxText = 1024
	// maxReason bounds, in bytes, a reason of a provider.
	maxReason = 128
	// maxAddresses is the number of address families.
	maxAddresses = 2
)

// Message is what a provider says as it may be shown: bounded, and without
// control characters.
func Message(s string) string { return text(s) }

// text is a message of a provider as it may be shown: bounded, and without
// control characters.
func text(s string) string { return clean(s, maxText) }

func reason(s string) string { return clean(s, maxReason) }

func clean(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
		for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) {
			s = s[:len(s)-1]
		}
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)
}

// addresses are those of a remote pod that may be believed: unicast ones, at
// most one a family. Endpoints are made of them, so loopback and link-local
// addresses would lead to the consumer's own nodes.
func addresses(from *corev1.PodStatus) []corev1.PodIP {
	var result []corev1.PodIP
	seen := map[bool]bool{}
	for _, ip := range from.PodIPs {
		addr, err := netip.ParseAddr(ip.IP)
		if err != nil || addr.Zone() != "" || addr.Is4In6() || !addr.IsGlobalUnicast() || seen[addr.Is4()] {
			continue
		}
		seen[addr.Is4()] = true
		if result = append(result, corev1.PodIP{IP: addr.String()}); len(result) == maxAddresses {
			break
		}
	}
	return result
}

// sanitise bounds the free texts and the amounts of a container's status, given
// what is asked for it and what was said of it before, which may be nothing.
func sanitise(s *corev1.ContainerStatus, spec *corev1.Container, before *corev1.ContainerStatus) {
	s.Image, s.ImageID, s.ContainerID = text(s.Image), text(s.ImageID), text(s.ContainerID)
	for _, state := range []*corev1.ContainerState{&s.State, &s.LastTerminationState} {
		if w := state.Waiting; w != nil {
			w.Reason, w.Message = reason(w.Reason), text(w.Message)
		}
		if t := state.Terminated; t != nil {
			// Termination messages are the pod's own words, up to 4096 bytes.
			t.Reason, t.Message, t.ContainerID = reason(t.Reason), clean(t.Message, 4096), text(t.ContainerID)
		}
	}
	// They name volumes, users and devices of the provider's node.
	s.VolumeMounts, s.User, s.AllocatedResourcesStatus = nil, nil, nil
	if before == nil {
		before = &corev1.ContainerStatus{}
	}
	s.Resources = requirements(s.Resources, spec.Resources, before.Resources)
	s.AllocatedResources = amounts(s.AllocatedResources, spec.Resources.Requests, before.AllocatedResources)
}

// Named is the status of a pod with what its addresses are called here, without
// those that are not reached. It shares the rest with the argument.
func Named(status *corev1.PodStatus, here func(address string) (string, bool)) corev1.PodStatus {
	named := *status
	named.PodIP, named.PodIPs = "", nil
	for _, ip := range status.PodIPs {
		if address, ok := here(ip.IP); ok {
			named.PodIPs = append(named.PodIPs, corev1.PodIP{IP: address})
		}
	}
	if len(named.PodIPs) > 0 {
		named.PodIP = named.PodIPs[0].IP
	}
	return named
}
