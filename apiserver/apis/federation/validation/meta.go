// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation validates objects of the federation API. Functions return all errors, each
// with the path of the field. They read only the object and its earlier version; checks that
// depend on other objects are admission.
//
// Peers write many of these objects, so every string, list and map is bounded.
package validation

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxClusterName keeps names that contain the name of a cluster within a DNS label.
	maxClusterName = 40

	maxLabels     = 128
	maxConditions = 16
)

var (
	metadataPath = field.NewPath("metadata")
	specPath     = field.NewPath("spec")
	statusPath   = field.NewPath("status")
)

// uuid matches UIDs of Kubernetes.
var uuid = regexp.MustCompile("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")

// metadata validates the metadata of a new object whose name is a DNS subdomain.
func metadata(meta metav1.Object, namespaced bool) field.ErrorList {
	return apivalidation.ValidateObjectMetaAccessor(meta, namespaced, apivalidation.NameIsDNSSubdomain, metadataPath)
}

// clusterMetadata validates the metadata of a new object that is named after a
// cluster.
func clusterMetadata(meta metav1.Object, namespaced bool) field.ErrorList {
	return apivalidation.ValidateObjectMetaAccessor(meta, namespaced, func(name string, prefix bool) []string {
		errs := apivalidation.NameIsDNSLabel(name, prefix)
		if len(name) > maxClusterName {
			errs = append(errs, fmt.Sprintf("must be at most %d characters", maxClusterName))
		}
		return errs
	}, metadataPath)
}

// metadataUpdate validates the metadata of a new version of an object.
func metadataUpdate(meta, old metav1.Object) field.ErrorList {
	return apivalidation.ValidateObjectMetaAccessorUpdate(meta, old, metadataPath)
}

// clusterName validates the name of a cluster.
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

// clusterID validates the ID of a cluster.
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

// dnsLabel validates the name of a namespace.
func dnsLabel(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(path, truncate(name), message))
	}
	return errs
}

// subdomain validates the name of most objects.
func subdomain(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(path, truncate(name), message))
	}
	return errs
}

// labels validates the syntax and number of labels.
func labels(set map[string]string, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(set, path)
	if len(set) > maxLabels {
		errs = append(errs, field.TooMany(path, len(set), maxLabels))
	}
	return errs
}

// conditions validates the form and number of conditions, and their messages.
func conditions(list []metav1.Condition, path *field.Path) field.ErrorList {
	if len(list) > maxConditions {
		return field.ErrorList{field.TooMany(path, len(list), maxConditions)}
	}
	errs := metav1validation.ValidateConditions(list, path)
	for i, condition := range list {
		errs = append(errs, printable(condition.Message, path.Index(i).Child("message"))...)
	}
	return errs
}

// printable validates a text that users read. It must not contain control characters, which a
// terminal would interpret.
func printable(text string, path *field.Path) field.ErrorList {
	control := func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }
	if !utf8.ValidString(text) || strings.ContainsFunc(text, control) {
		return field.ErrorList{field.Invalid(path, truncate(strings.ToValidUTF8(text, "")), "must be printable text")}
	}
	return nil
}

// optional validates a value with check unless it is empty.
func optional(value string, path *field.Path, check func(string, *field.Path) field.ErrorList) field.ErrorList {
	if value == "" {
		return nil
	}
	return check(value, path)
}

// notNegative validates a count, a generation or a duration.
func notNegative[T ~int32 | ~int64](value T, path *field.Path) field.ErrorList {
	return apivalidation.ValidateNonnegativeField(int64(value), path)
}

// immutable validates a field that cannot change.
func immutable(value, old any, path *field.Path) field.ErrorList {
	return apivalidation.ValidateImmutableField(value, old, path)
}

// onceSet validates a field that cannot change once it has a value.
func onceSet(value, old string, path *field.Path) field.ErrorList {
	if old == "" || value == old {
		return nil
	}
	return field.ErrorList{field.Invalid(path, truncate(value), "must not change once it is set")}
}

// oneOf validates a field that has only these values.
func oneOf[T ~string](value T, path *field.Path, values ...T) field.ErrorList {
	for _, allowed := range values {
		if value == allowed {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, T(truncate(string(value))), values)}
}

// truncate bounds a value in an error.
func truncate(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

// maxPeersMetadata bounds the metadata that a peer writes, in bytes: Kubernetes
// bounds neither finalizers nor owners.
const maxPeersMetadata = 64 << 10

// peersMetadata validates the size of the metadata of an object that a peer writes.
func peersMetadata(meta metav1.ObjectMeta) field.ErrorList {
	// The server writes the managed fields.
	meta.ManagedFields = nil
	if meta.Size() > maxPeersMetadata {
		return field.ErrorList{field.TooLong(metadataPath, "", maxPeersMetadata)}
	}
	return nil
}
