// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package federation defines the internal version of the federation API. The API server converts
// objects of each served or stored version to it. Fields and values are documented in the served
// version, v1alpha1.
//
// +k8s:deepcopy-gen=package
// +groupName=federation.liqo.io
package federation
