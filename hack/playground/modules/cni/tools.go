// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins what the playground builds from this module.
package tools

import (
	_ "github.com/containernetworking/plugins/plugins/ipam/host-local"
	_ "github.com/containernetworking/plugins/plugins/main/bridge"
	_ "github.com/containernetworking/plugins/plugins/main/loopback"
	_ "github.com/containernetworking/plugins/plugins/meta/portmap"
)
