// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package federation holds the internal types of the federation API: the form
// that the API server works with, whatever version is served or stored. The
// fields are documented on the served versions.
//
// +k8s:deepcopy-gen=package
// +groupName=federation.liqo.io
package federation
