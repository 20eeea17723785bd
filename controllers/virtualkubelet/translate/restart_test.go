// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestContainersRestartByTheirRules(t *testing.T) {
	const (
		always    = corev1.RestartPolicyAlways
		onFailure = corev1.RestartPolicyOnFailure
		never     = corev1.RestartPolicyNever
	)
	own := func(policy corev1.ContainerRestartPolicy, rules ...corev1.ContainerRestartRule) corev1.Container {
		return corev1.Container{Name: "app", RestartPolicy: ptr.To(policy), RestartPolicyRules: rules}
	}
	rule := func(action corev1.ContainerRestartRuleAction, operator corev1.ContainerRestartRuleOnExitCodesOperator,
		codes ...int32) corev1.ContainerRestartRule {
		return corev1.ContainerRestartRule{
			Action:    action,
			ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: operator, Values: codes},
		}
	}
	const in, notIn = corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn
	const (
		restart    = corev1.ContainerRestartRuleActionRestart
		restartAll = corev1.ContainerRestartRuleActionRestartAllContainers
	)
	for _, test := range []struct {
		name      string
		policy    corev1.RestartPolicy
		container corev1.Container
		exitCode  int32
		want      bool
	}{
		{"always", always, corev1.Container{}, 0, true},
		{"OnFailure, failed container", onFailure, corev1.Container{}, 1, true},
		{"OnFailure, succeeded container", onFailure, corev1.Container{}, 0, false},
		{"never", never, corev1.Container{}, 1, false},
		{"a sidecar of a pod that never restarts", never, own(corev1.ContainerRestartPolicyAlways), 0, true},
		{"a container with Never in a pod with Always", always, own(corev1.ContainerRestartPolicyNever), 1, false},
		{"by a rule that matches", never, own(corev1.ContainerRestartPolicyNever, rule(restart, in, 42)), 42, true},
		{"by a rule that does not match", never, own(corev1.ContainerRestartPolicyNever, rule(restart, in, 42)), 1, false},
		{
			"by a rule with NotIn", never, own(corev1.ContainerRestartPolicyNever, rule(restart, notIn, 42)), 1,
			true,
		},
		{
			"by a rule that restarts all containers", never, own(corev1.ContainerRestartPolicyNever, rule(restartAll, in, 42)),
			1, true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := &corev1.PodSpec{RestartPolicy: test.policy, Containers: []corev1.Container{test.container}}
			if got := mayRestart(pod, &pod.Containers[0], test.exitCode); got != test.want {
				t.Errorf("%t", got)
			}
		})
	}
}
