// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// SelectableFields are the fields that field selectors support, by kind, in addition to
// metadata.name and metadata.namespace.
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

// addFieldLabels permits SelectableFields, metadata.name and metadata.namespace in field selectors.
// The API server refuses other fields with 400.
func addFieldLabels(scheme *runtime.Scheme) error {
	for kind, selectable := range SelectableFields {
		convert := func(label, value string) (string, string, error) {
			if slices.Contains(selectable, label) {
				return label, value, nil
			}
			internal, value, err := runtime.DefaultMetaV1FieldSelectorConversion(label, value)
			if err != nil {
				return "", "", fmt.Errorf("%q is not a field of a %s that field selectors support: use %s, %s or one of %q",
					label, kind, metav1.ObjectNameField, "metadata.namespace", selectable)
			}
			return internal, value, nil
		}
		if err := scheme.AddFieldLabelConversionFunc(SchemeGroupVersion.WithKind(kind), convert); err != nil {
			return err
		}
	}
	return nil
}
