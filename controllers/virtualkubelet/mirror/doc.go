// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mirror reflects objects that pods use, for example ConfigMaps and Services, into the remote namespaces, and
// copies the statuses of reflected objects of configured kinds to the local objects.
package mirror
