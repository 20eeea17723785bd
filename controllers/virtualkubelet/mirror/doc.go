// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mirror reflects the objects that pods use, for example ConfigMaps and Services, into the remote namespaces,
// and brings the status of configured kinds back. One pass over one object and its reflected object is the same for
// every kind.
package mirror
