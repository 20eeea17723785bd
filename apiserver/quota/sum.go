// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import corev1 "k8s.io/api/core/v1"

// Sum is the sum of the quota usage of several objects. It is immutable. The zero value is the sum of
// no objects.
type Sum struct {
	// Resources are the amounts by resource. Callers must not modify them.
	Resources corev1.ResourceList
}

// Plus returns the sum with the quota usage of one more object.
func (s Sum) Plus(requests corev1.ResourceList) Sum { return s.change(requests, Add) }

// Minus returns the sum without the quota usage of one of its objects.
func (s Sum) Minus(requests corev1.ResourceList) Sum { return s.change(requests, Subtract) }

func (s Sum) change(by corev1.ResourceList, how func(sum, by corev1.ResourceList)) Sum {
	changed := s.Resources.DeepCopy()
	if changed == nil {
		changed = corev1.ResourceList{}
	}
	how(changed, by)
	return Sum{changed}
}
