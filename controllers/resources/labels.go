// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// reservedDomains are those of labels that a Node of this cluster gets from
// this cluster alone: they steer schedulers, node controllers and ourselves.
var reservedDomains = []string{"kubernetes.io", "k8s.io", "liqo.io"}

// topologyDomain is where a provider says where it is.
const topologyDomain = "topology.liqo.io"

// offerableLabel tells whether a provider may set a label on a consumer's
// virtual node. What comes from a provider is input from a stranger: it must
// not pose as a control plane, another cluster or another operating system.
func offerableLabel(key string) bool {
	if key == corev1.LabelTopologyRegion || key == corev1.LabelTopologyZone {
		return true
	}
	domain, _, qualified := strings.Cut(key, "/")
	if !qualified || domain == topologyDomain {
		return true
	}
	for _, reserved := range reservedDomains {
		if domain == reserved || strings.HasSuffix(domain, "."+reserved) {
			return false
		}
	}
	return true
}

// offerableLabels keeps of an offer's labels those that a provider may set.
func offerableLabels(labels map[string]string) map[string]string {
	kept := map[string]string{}
	for key, value := range labels {
		if offerableLabel(key) {
			kept[key] = value
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}
