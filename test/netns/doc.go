// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netns tests the network agents with a real kernel, in clusters of two nodes each that are made of
// network namespaces, with traffic between their pods. The tests need root, and network and mount namespaces
// of their own. "make test-netns" runs them.
package netns
