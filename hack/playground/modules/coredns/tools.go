// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins what the playground builds from this module.
package tools

import (
	_ "github.com/coredns/coredns"
)
