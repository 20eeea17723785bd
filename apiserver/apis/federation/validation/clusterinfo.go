// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// ValidateClusterInfo validates a new ClusterInfo, whose name must be local.
func ValidateClusterInfo(info *federation.ClusterInfo) field.ErrorList {
	errs := metadata(info, false)
	return append(errs, oneOf(info.Name, metadataPath.Child("name"), v1alpha1.ClusterInfoName)...)
}

// ValidateClusterInfoUpdate validates an update of a ClusterInfo.
func ValidateClusterInfoUpdate(info, old *federation.ClusterInfo) field.ErrorList {
	return metadataUpdate(info, old)
}

// ValidateClusterInfoStatusUpdate validates an update of the status of a ClusterInfo.
func ValidateClusterInfoStatusUpdate(info, old *federation.ClusterInfo) field.ErrorList {
	status := &info.Status
	errs := metadataUpdate(info, old)
	errs = append(errs, optional(status.ClusterID, statusPath.Child("clusterID"), requiredClusterID)...)
	errs = append(errs, optional(status.ClusterName, statusPath.Child("clusterName"), clusterName)...)
	errs = append(errs, metav1validation.ValidateLabels(status.Labels, statusPath.Child("labels"))...)
	errs = append(errs, printableText(status.Version, statusPath.Child("version"))...)
	errs = append(errs, capabilities(nil, status.Features, statusPath)...)
	if gateway := status.Gateway; gateway != nil {
		path := statusPath.Child("gateway")
		errs = append(errs, publicKey(gateway.PublicKey, path.Child("publicKey"))...)
		errs = append(errs, uniqueNames(gateway.Endpoints, MaxTunnelEndpoints, path.Child("endpoints"), hostPort)...)
	}
	errs = append(errs, clusterRanges(status.Ranges, statusPath.Child("ranges"))...)
	return append(errs, conditions(status.Conditions, statusPath.Child("conditions"))...)
}

// clusterRanges validates status.ranges. A CIDR must not occur twice with the same use.
func clusterRanges(list []federation.ClusterRange, path *field.Path) field.ErrorList {
	if len(list) > v1alpha1.MaxClusterRanges {
		return field.ErrorList{field.TooMany(path, len(list), v1alpha1.MaxClusterRanges)}
	}
	var errs field.ErrorList
	type once struct {
		use  federation.ClusterRangeUse
		cidr string
	}
	seen := map[once]bool{}
	for i, r := range list {
		at := path.Index(i)
		errs = append(errs, oneOf(r.Use, at.Child("use"), federation.RangeOfPods, federation.RangeOfServices,
			federation.RangeOfNodes, federation.RangeExternal, federation.RangeReserved)...)
		_, wrong := cidr(r.CIDR, at.Child("cidr"))
		errs = append(errs, wrong...)
		errs = append(errs, qualifiedName(string(r.Source), at.Child("source"))...)
		if seen[once{r.Use, r.CIDR}] {
			errs = append(errs, field.Duplicate(at, truncate(r.CIDR)))
		}
		seen[once{r.Use, r.CIDR}] = true
	}
	return errs
}
