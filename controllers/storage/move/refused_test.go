// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"testing"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
)

func TestMoveCreatesEachObjectOnce(t *testing.T) {
	w := newWorld(t, online())
	w.settle()
	w.until(v1alpha1.MoveSucceeded)
	if len(w.repeated) > 0 {
		t.Errorf("these exist and count against a quota again: %v", w.repeated)
	}
}
