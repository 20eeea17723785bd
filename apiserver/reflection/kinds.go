// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package reflection

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation/validation"
)

// ParseKinds returns the kinds in the values of a flag. Each value is resource, version and group, for
// example certificates.v1.cert-manager.io. It returns an error for each invalid value, with the name of
// the flag.
func ParseKinds(flag string, names []string) ([]metav1.GroupVersionResource, []error) {
	var kinds []metav1.GroupVersionResource
	var errs []error
	for _, name := range names {
		kind, _ := schema.ParseResourceArg(name)
		if kind == nil {
			errs = append(errs, fmt.Errorf("--%s %q: must be the resource, the version and the group of a kind, "+
				"for example certificates.v1.cert-manager.io", flag, name))
			continue
		}
		kinds = append(kinds, metav1.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: kind.Resource})
	}
	if len(errs) > 0 {
		return nil, errs
	}
	for _, err := range validation.ReflectedKinds(kinds, field.NewPath("--"+flag)) {
		errs = append(errs, err)
	}
	return kinds, errs
}

// KindName returns the name of a kind in the form that ParseKinds parses.
func KindName(kind metav1.GroupVersionResource) string {
	return strings.Join([]string{kind.Resource, kind.Version, kind.Group}, ".")
}
