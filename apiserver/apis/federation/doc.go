// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package federation has the internal types of the federation API, which the API server works with
// whatever version is served or stored. Fields and values are documented in the served version,
// v1alpha1.
//
// +k8s:deepcopy-gen=package
// +groupName=federation.liqo.io
package federation
