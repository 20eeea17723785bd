// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peering brings two clusters together and takes them apart again. A
// consumer pays with an invitation for an identity at its provider; a provider
// gives an invited consumer a tenant namespace and signs its identity. Every
// pass may be the last one before a crash: what is there is looked at, and the
// next thing that is missing is made.
package peering
