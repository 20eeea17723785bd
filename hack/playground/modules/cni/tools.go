// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools names the programs that the playground builds from this module, so that `go mod tidy` keeps their
// dependencies.
package tools

import (
	_ "github.com/containernetworking/plugins/plugins/ipam/host-local"
	_ "github.com/containernetworking/plugins/plugins/main/bridge"
	_ "github.com/containernetworking/plugins/plugins/main/loopback"
	_ "github.com/containernetworking/plugins/plugins/meta/portmap"
)
