// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package kittest

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Poll calls a condition until it is true or fails, for at most 30 seconds. It returns the error of the condition, or
// after the timeout an error for which wait.Interrupted is true.
func Poll(t T, condition wait.ConditionWithContextFunc) error {
	t.Helper()
	return wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 30*time.Second, true, condition)
}
