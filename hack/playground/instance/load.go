// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"path/filepath"
	"slices"
	"sync/atomic"

	"liqo.io/federation/hack/playground/build"
	"liqo.io/federation/hack/playground/state"
)

// LoadImages loads image archives into all nodes of the named clusters, or of all clusters if there are no names.
func LoadImages(
	ctx context.Context, i *state.Instance, tools *build.Set, clusters, archives []string, steps *Steps,
) error {
	for _, name := range clusters {
		if _, err := i.Cluster(name); err != nil {
			return err
		}
	}
	for _, archive := range archives {
		var loads []func(context.Context) error
		var loaded atomic.Int32
		for _, c := range i.Clusters {
			if len(clusters) > 0 && !slices.Contains(clusters, c.Name) {
				continue
			}
			for _, n := range c.Nodes {
				loads = append(loads, func(ctx context.Context) error {
					count, err := clusterOf(i, c, tools).Import(ctx, n, archive)
					loaded.Add(int32(count))
					return err
				})
			}
		}
		if err := parallel(ctx, loads...); err != nil {
			return err
		}
		steps.Done(filepath.Base(archive), "loaded into %d nodes, present in %d",
			loaded.Load(), len(loads)-int(loaded.Load()))
	}
	return nil
}
