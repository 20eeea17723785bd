// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kit holds what the controllers on controller-runtime share: their manager,
// their metrics, one patch a pass, and deletion by UID.
package kit
