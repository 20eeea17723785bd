// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netns tests the network fabric with a real kernel: two clusters of two nodes each, made of
// network namespaces, and traffic between their pods. Its tests require root and network and mount
// namespaces of their own:
//
//	make test-netns
package netns
