// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package virtualvolume

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apiserver/pkg/registry/rest"

	"liqo.io/federation/apiserver/apis/federation"
	"liqo.io/federation/registry/federation/resource"
)

// idLength is the length of the generated ID of a move, which is part of the names of the objects that the move
// creates.
const idLength = 10

type base = resource.Strategy[*federation.VirtualVolume, federation.VirtualVolumeSpec, federation.VirtualVolumeStatus]

// Strategy is the strategy of VirtualVolumes. It generates the ID of a requested move that has none.
type Strategy struct {
	base
}

func newStrategy(typer runtime.ObjectTyper) Strategy { return Strategy{kind.Strategy(typer)} }

// PrepareForUpdate sets the ID of the requested move. The ID does not change if the other fields of the move do not
// change, or while the move runs. Any other update requests a different move, which gets a new ID if it has none or the
// ID of the previous move: server-side apply of a manifest without an ID leaves the previous ID in the object.
func (s Strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	before := old.(*federation.VirtualVolume)
	identify(obj.(*federation.VirtualVolume).Spec.Move, before.Spec.Move, before.Moving())
	s.base.PrepareForUpdate(ctx, obj, old)
}

func identify(move, before *federation.RequestedMove, running bool) {
	if move == nil {
		return
	}
	if before != nil && (move.ID == "" || move.ID == before.ID) {
		if running || apiequality.Semantic.DeepEqual(move.MoveSpec, before.MoveSpec) {
			move.ID = before.ID
			return
		}
		move.ID = ""
	}
	if move.ID == "" {
		move.ID = newMoveID()
	}
}

// newMoveID returns a random ID for a move.
func newMoveID() string { return rand.String(idLength) }

var _ rest.CreateUpdateResetFieldsStrategy = Strategy{}
