// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation validates objects of the federation API. Its functions return all errors, each
// with the path of the field. They read only the object and, for an update, the old object. Rules
// that depend on other objects are checked at admission or when the object is stored.
//
// Peers write many of these objects, so each string, list and map has a maximum size.
package validation

import (
	"fmt"
	"regexp"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/printable"
)

const (
	// maxClusterName is the maximum length of the name of a cluster. Names that are derived from it
	// must fit into a DNS label.
	maxClusterName = 40

	maxLabels     = 128
	maxConditions = 16
)

var (
	metadataPath = field.NewPath("metadata")
	specPath     = field.NewPath("spec")
	statusPath   = field.NewPath("status")
)

// uuid matches the UIDs that Kubernetes generates.
var uuid = regexp.MustCompile("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")

// metadata validates the metadata of a new object whose name is a DNS subdomain.
func metadata(meta metav1.Object, namespaced bool) field.ErrorList {
	return apivalidation.ValidateObjectMetaAccessor(meta, namespaced, apivalidation.NameIsDNSSubdomain, metadataPath)
}

// clusterMetadata validates the metadata of a new object whose name is the name of a cluster: a DNS
// label of at most 40 characters.
func clusterMetadata(meta metav1.Object, namespaced bool) field.ErrorList {
	return apivalidation.ValidateObjectMetaAccessor(meta, namespaced, func(name string, prefix bool) []string {
		errs := apivalidation.NameIsDNSLabel(name, prefix)
		if len(name) > maxClusterName {
			errs = append(errs, fmt.Sprintf("must be at most %d characters", maxClusterName))
		}
		return errs
	}, metadataPath)
}

// metadataUpdate validates an update of the metadata of an object.
func metadataUpdate(meta, old metav1.Object) field.ErrorList {
	return apivalidation.ValidateObjectMetaAccessorUpdate(meta, old, metadataPath)
}

// clusterName validates the name of a cluster, which must not be empty.
func clusterName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "must be the name of the cluster")}
	}
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(path, name, message))
	}
	if len(name) > maxClusterName {
		errs = append(errs, field.TooLong(path, name, maxClusterName))
	}
	return errs
}

// clusterID validates the ID of a cluster, a UUID in lower case.
func clusterID(id string, path *field.Path) field.ErrorList {
	if !uuid.MatchString(id) {
		return field.ErrorList{field.Invalid(path, truncate(id),
			"must be the UID of the cluster's namespace kube-system, a lower-case UUID")}
	}
	return nil
}

// requiredClusterID validates the ID of a cluster, which must not be empty.
func requiredClusterID(id string, path *field.Path) field.ErrorList {
	if id == "" {
		return field.ErrorList{field.Required(path, "must be the UID of the cluster's namespace kube-system")}
	}
	return clusterID(id, path)
}

// dnsLabel validates a DNS label, for example the name of a namespace.
func dnsLabel(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(path, truncate(name), message))
	}
	return errs
}

// subdomain validates a DNS subdomain, for example the name of an object.
func subdomain(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(path, truncate(name), message))
	}
	return errs
}

// labels validates the syntax of labels, and that there are at most 128.
func labels(set map[string]string, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(set, path)
	if len(set) > maxLabels {
		errs = append(errs, field.TooMany(path, len(set), maxLabels))
	}
	return errs
}

// conditions validates conditions: at most 16, with printable messages.
func conditions(list []metav1.Condition, path *field.Path) field.ErrorList {
	if len(list) > maxConditions {
		return field.ErrorList{field.TooMany(path, len(list), maxConditions)}
	}
	errs := metav1validation.ValidateConditions(list, path)
	for i, condition := range list {
		errs = append(errs, printableText(condition.Message, path.Index(i).Child("message"))...)
	}
	return errs
}

// printableText validates a text that is displayed to users. It must not contain control characters,
// since a terminal would interpret them.
func printableText(text string, path *field.Path) field.ErrorList {
	if !printable.Is(text) {
		return field.ErrorList{field.Invalid(path, truncate(strings.ToValidUTF8(text, "")), "must be printable text")}
	}
	return nil
}

// optional calls the function check with a value and returns its errors. For an empty value it
// returns no errors.
func optional(value string, path *field.Path, check func(string, *field.Path) field.ErrorList) field.ErrorList {
	if value == "" {
		return nil
	}
	return check(value, path)
}

// notNegative validates that a number is at least 0.
func notNegative[T ~int32 | ~int64](value T, path *field.Path) field.ErrorList {
	return apivalidation.ValidateNonnegativeField(int64(value), path)
}

// immutable returns an error if a value differs from the old value.
func immutable(value, old any, path *field.Path) field.ErrorList {
	return apivalidation.ValidateImmutableField(value, old, path)
}

// onceSet returns an error if a value differs from an old value that is not empty.
func onceSet(value, old string, path *field.Path) field.ErrorList {
	if old == "" || value == old {
		return nil
	}
	return field.ErrorList{field.Invalid(path, truncate(value), "must not change once it is set")}
}

// oneOf returns an error if a value is not one of the given values.
func oneOf[T ~string](value T, path *field.Path, values ...T) field.ErrorList {
	for _, allowed := range values {
		if value == allowed {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, T(truncate(string(value))), values)}
}

// truncate returns the first 64 bytes of a value for an error message, without splitting a
// character, since a peer may send a value of any length.
func truncate(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// maxPeersMetadata is the maximum size, in bytes, of the metadata of an object that a peer writes.
// Kubernetes does not limit finalizers and owner references.
const maxPeersMetadata = 64 << 10

// peersMetadata validates that the metadata of an object which a peer writes is not larger than
// maxPeersMetadata.
func peersMetadata(meta metav1.ObjectMeta) field.ErrorList {
	// Managed fields do not count: the API server writes them.
	meta.ManagedFields = nil
	if meta.Size() > maxPeersMetadata {
		return field.ErrorList{field.TooLong(metadataPath, "", maxPeersMetadata)}
	}
	return nil
}
