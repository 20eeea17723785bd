// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// SelectableFields are what objects of a kind can be selected by with a field
// selector, beside metadata.name and metadata.namespace.
var SelectableFields = map[string][]string{
	"AddressMapping":      {"spec.clusterID", "spec.pool"},
	"ForeignCluster":      {"spec.clusterID", "status.incomingPeering", "status.outgoingPeering"},
	"NamespaceOffloading": {"status.phase"},
	"NetworkConfig":       {"spec.clusterID"},
	"ResourceOffer":       {"spec.clusterID", "status.phase"},
	"ResourceRequest":     {"status.phase"},
	"ShadowPod":           {"status.phase"},
	"ShadowVolumeClaim":   {"status.phase"},
	"TunnelEndpoint":      {"spec.clusterID"},
	"VirtualNode":         {"spec.clusterID"},
	"VirtualVolume":       {"status.location.clusterName", "status.phase"},
}

// addFieldLabels lets field selectors name SelectableFields.
func addFieldLabels(scheme *runtime.Scheme) error {
	for kind, selectable := range SelectableFields {
		err := scheme.AddFieldLabelConversionFunc(SchemeGroupVersion.WithKind(kind), func(label, value string) (string, string, error) {
			if slices.Contains(selectable, label) {
				return label, value, nil
			}
			internal, value, err := runtime.DefaultMetaV1FieldSelectorConversion(label, value)
			if err != nil {
				return "", "", fmt.Errorf("%q is not a field that a %s can be selected by: those are %s, %s and %q", label, kind, metav1.ObjectNameField, "metadata.namespace", selectable)
			}
			return internal, value, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
