// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kit is shared by the controllers on controller-runtime: their manager, their metrics, one
// patch a pass, and deletion by UID.
package kit
