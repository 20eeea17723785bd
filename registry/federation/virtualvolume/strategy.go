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
	"liqo.io/federation/registry/federation/strategy"
)

// idLength is the length of generated ids of moves. An id is part of the names of what
// a move creates.
const idLength = 10

type base = strategy.Strategy[*federation.VirtualVolume, federation.VirtualVolumeSpec, federation.VirtualVolumeStatus]

// Strategy creates virtual volumes and updates their spec. It generates the id of a move
// that is written without one.
type Strategy struct {
	base
}

func newStrategy(typer runtime.ObjectTyper) Strategy { return Strategy{kind.Strategy(typer)} }

// PrepareForUpdate completes a new version of a virtual volume: a move without an id keeps the
// id of the same move, or gets a new one. A different move with the id of one that has ended,
// which server-side apply retains, gets a new one.
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

// newMoveID returns a new id of a move.
func newMoveID() string { return rand.String(idLength) }

var _ rest.CreateUpdateResetFieldsStrategy = Strategy{}
