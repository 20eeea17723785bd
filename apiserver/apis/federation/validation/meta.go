// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation tells what is wrong with objects of the federation API:
// everything at once, each with the path of the field and the reason. It
// looks at the objects alone; what depends on others is admission.
//
// Much of what is checked here comes from other clusters, so every string,
// list and map is bounded.
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
	// maxClusterName keeps what is named after a cluster within a DNS label.
	maxClusterName = 40

	maxLabels     = 128
	maxConditions = 16
)

var (
	metadataPath = field.NewPath("metadata")
	specPath     = field.NewPath("spec")
	statusPath   = field.NewPath("status")
)

// uuid is the form of the UIDs that Kubernetes gives.
var uuid = regexp.MustCompile("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")

// metadata checks the metadata of a new object whose name is a DNS subdomain.
func metadata(meta metav1.Object, namespaced bool) field.ErrorList {
	return apivalidation.ValidateObjectMetaAccessor(meta, namespaced, apivalidation.NameIsDNSSubdomain, metadataPath)
}

// clusterMetadata checks the metadata of a new object that is named after a
// cluster.
func clusterMetadata(meta metav1.Object, namespaced bool) field.ErrorList {
	return apivalidation.ValidateObjectMetaAccessor(meta, namespaced, func(name string, prefix bool) []string {
		errs := apivalidation.NameIsDNSLabel(name, prefix)
		if len(name) > maxClusterName {
			errs = append(errs, fmt.Sprintf("must be no more than %d characters", maxClusterName))
		}
		return errs
	}, metadataPath)
}

// metadataUpdate checks the metadata of a new version of an object.
func metadataUpdate(meta, old metav1.Object) field.ErrorList {
	return apivalidation.ValidateObjectMetaAccessorUpdate(meta, old, metadataPath)
}

// clusterName checks how a cluster calls itself.
func clusterName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "is how the cluster calls itself")}
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

// clusterID checks the id of a cluster, which is a UID of Kubernetes.
func clusterID(id string, path *field.Path) field.ErrorList {
	if !uuid.MatchString(id) {
		return field.ErrorList{field.Invalid(path, truncate(id), "must be the UID of the cluster's namespace kube-system, a lower-case UUID")}
	}
	return nil
}

// requiredClusterID checks the id of a cluster that has to be there.
func requiredClusterID(id string, path *field.Path) field.ErrorList {
	if id == "" {
		return field.ErrorList{field.Required(path, "is the UID of the cluster's namespace kube-system")}
	}
	return clusterID(id, path)
}

// dnsLabel checks the name of a namespace.
func dnsLabel(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(path, truncate(name), message))
	}
	return errs
}

// subdomain checks the name of most objects.
func subdomain(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(path, truncate(name), message))
	}
	return errs
}

// labels checks the syntax and number of labels.
func labels(set map[string]string, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(set, path)
	if len(set) > maxLabels {
		errs = append(errs, field.TooMany(path, len(set), maxLabels))
	}
	return errs
}

// conditions checks the form and number of conditions, and bounds what they
// say.
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

// printable checks a text that is shown to people: what a terminal would obey
// is not for strangers to write.
func printable(text string, path *field.Path) field.ErrorList {
	obeyed := func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }
	if !utf8.ValidString(text) || strings.ContainsFunc(text, obeyed) {
		return field.ErrorList{field.Invalid(path, truncate(strings.ToValidUTF8(text, "")), "must be printable text")}
	}
	return nil
}

// optional runs a check on a value that may be empty.
func optional(value string, path *field.Path, check func(string, *field.Path) field.ErrorList) field.ErrorList {
	if value == "" {
		return nil
	}
	return check(value, path)
}

// notNegative checks a count, a generation or a duration.
func notNegative[T ~int32 | ~int64](value T, path *field.Path) field.ErrorList {
	return apivalidation.ValidateNonnegativeField(int64(value), path)
}

// immutable checks a field that cannot change.
func immutable(value, old any, path *field.Path) field.ErrorList {
	return apivalidation.ValidateImmutableField(value, old, path)
}

// onceSet checks a field that cannot change any more once it has a value.
func onceSet(value, old string, path *field.Path) field.ErrorList {
	if old == "" || value == old {
		return nil
	}
	return field.ErrorList{field.Invalid(path, truncate(value), "cannot change once it is set")}
}

// oneOf checks a field that has only these values.
func oneOf[T ~string](value T, path *field.Path, values ...T) field.ErrorList {
	for _, allowed := range values {
		if value == allowed {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, T(truncate(string(value))), values)}
}

// truncate keeps what a stranger sent from filling the answer.
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

// peersMetadata checks the size of the metadata of what a peer writes.
func peersMetadata(meta metav1.ObjectMeta) field.ErrorList {
	// The server itself keeps who wrote what.
	meta.ManagedFields = nil
	if meta.Size() > maxPeersMetadata {
		return field.ErrorList{field.TooLong(metadataPath, "", maxPeersMetadata)}
	}
	return nil
}
