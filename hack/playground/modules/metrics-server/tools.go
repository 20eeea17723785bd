// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build tools

// Package tools pins what the playground builds from this module.
package tools

import (
	_ "sigs.k8s.io/metrics-server/cmd/metrics-server"
)
