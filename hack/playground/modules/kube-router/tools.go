// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools names the programs that the playground builds from this module, so that `go mod tidy` keeps their
// dependencies.
package tools

import (
	_ "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router"
)
