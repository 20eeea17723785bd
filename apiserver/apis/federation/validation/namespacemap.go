// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"liqo.io/federation/apiserver/apis/federation"
)

const (
	maxNamespaces     = 1000
	maxMappingMessage = 4096
)

// ValidateNamespaceMap validates a new namespace map.
func ValidateNamespaceMap(m *federation.NamespaceMap) field.ErrorList {
	errs := clusterMetadata(m, true)
	return append(errs, namespaceMapSpec(&m.Spec)...)
}

// ValidateNamespaceMapUpdate validates an update of a namespace map.
func ValidateNamespaceMapUpdate(m, old *federation.NamespaceMap) field.ErrorList {
	errs := metadataUpdate(m, old)
	return append(errs, namespaceMapSpec(&m.Spec)...)
}

// ValidateNamespaceMapStatusUpdate validates an update of the status of a namespace map.
func ValidateNamespaceMapStatusUpdate(m, old *federation.NamespaceMap) field.ErrorList {
	errs := metadataUpdate(m, old)
	errs = append(errs, notNegative(m.Status.ObservedGeneration, statusPath.Child("observedGeneration"))...)

	path := statusPath.Child("namespaces")
	if len(m.Status.Namespaces) > maxNamespaces {
		return append(errs, field.TooMany(path, len(m.Status.Namespaces), maxNamespaces))
	}
	seen := map[string]bool{}
	for i, mapping := range m.Status.Namespaces {
		at := path.Index(i)
		if seen[mapping.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), truncate(mapping.Name)))
		}
		seen[mapping.Name] = true
		errs = append(errs, dnsLabel(mapping.Name, at.Child("name"))...)
		errs = append(errs, dnsLabel(mapping.RemoteName, at.Child("remoteName"))...)
		errs = append(errs, oneOf(mapping.Phase, at.Child("phase"),
			federation.NamespaceMappingReady, federation.NamespaceMappingTerminating, federation.NamespaceMappingConflict,
			federation.NamespaceMappingRefused, federation.NamespaceMappingFailed)...)
		if len(mapping.Message) > maxMappingMessage {
			errs = append(errs, field.TooLong(at.Child("message"), "", maxMappingMessage))
		}
		errs = append(errs, printableText(mapping.Message, at.Child("message"))...)
	}
	return errs
}

func namespaceMapSpec(spec *federation.NamespaceMapSpec) field.ErrorList {
	path := specPath.Child("namespaces")
	if len(spec.Namespaces) > maxNamespaces {
		return field.ErrorList{field.TooMany(path, len(spec.Namespaces), maxNamespaces)}
	}
	var errs field.ErrorList
	names, remoteNames := map[string]bool{}, map[string]bool{}
	for i, mapping := range spec.Namespaces {
		at := path.Index(i)
		if names[mapping.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), truncate(mapping.Name)))
		}
		if remoteNames[mapping.RemoteName] {
			errs = append(errs, field.Duplicate(at.Child("remoteName"), truncate(mapping.RemoteName)))
		}
		names[mapping.Name], remoteNames[mapping.RemoteName] = true, true
		errs = append(errs, dnsLabel(mapping.Name, at.Child("name"))...)
		errs = append(errs, dnsLabel(mapping.RemoteName, at.Child("remoteName"))...)
	}
	return errs
}
