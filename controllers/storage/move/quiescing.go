// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

// quiesce annotates the claim, so that new pods that mount it get a scheduling gate, and evicts the pods that mount it,
// until only the movers use the source.
func (m *move) quiesce(ctx context.Context) (outcome, error) {
	claim, err := m.claim(ctx)
	if err != nil {
		return outcome{}, err
	}
	source, _, err := m.source(ctx)
	if err != nil {
		return outcome{}, err
	}
	if !m.same(claim) || source == nil {
		return giveUp("The claim or its volume was deleted."), nil
	}
	if err := m.annotateMoving(ctx, claim, m.progress.ID); err != nil {
		return outcome{}, err
	}
	left, err := m.drain(ctx, source)
	if err != nil {
		return outcome{}, err
	}
	if len(left) == 0 {
		mark, _ := markOf(source)
		now := metav1.NewMicroTime(m.Clock.Now())
		mark.Quiesced = &now
		if err := m.remark(ctx, source, mark); err != nil {
			return outcome{}, err
		}
		return goTo(v1alpha1.MoveLocking), nil
	}
	if m.late() {
		return giveUp("These pods did not end in time: %s.", strings.Join(left, ", ")), nil
	}
	return waitFor(fastInterval, "Waiting for pods to end: %s.", strings.Join(left, ", ")), nil
}
