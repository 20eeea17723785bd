// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import "liqo.io/federation/controllers/virtualkubelet/remotens"

// fixed implements Namespaces with constant states, by local name.
type fixed map[string]remotens.State

func (f fixed) State(local string) remotens.State { return f[local] }
func (f fixed) All() map[string]remotens.State    { return f }
