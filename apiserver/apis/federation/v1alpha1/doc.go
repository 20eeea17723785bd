// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 has the types, defaults and names of version v1alpha1 of the federation API.
//
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.liqo.federation.v1alpha1
// +k8s:deepcopy-gen=package
// +k8s:conversion-gen=liqo.io/federation/apiserver/apis/federation
// +k8s:defaulter-gen=TypeMeta
// +k8s:protobuf-gen=package
// +groupName=federation.liqo.io
package v1alpha1
