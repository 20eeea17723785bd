// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools names the programs that the playground builds from this module, so that `go mod tidy` keeps their
// dependencies.
package tools

import (
	_ "sigs.k8s.io/kwok/cmd/kwok"
)
