// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// mayRestart reports whether a container that ended with an exit code may run again. It decides as the API server does
// when it validates a status: the restart rules of the container take precedence over its restart policy, and its
// restart policy over the pod's. If any container has a rule that restarts all containers, every container may run
// again.
func mayRestart(pod *corev1.PodSpec, container *corev1.Container, exitCode int32) bool {
	if restartsAll(pod.Containers) || restartsAll(pod.InitContainers) {
		return true
	}
	policy := pod.RestartPolicy
	if container.RestartPolicy != nil {
		if slices.ContainsFunc(container.RestartPolicyRules, func(rule corev1.ContainerRestartRule) bool {
			return rule.Action == corev1.ContainerRestartRuleActionRestart && matches(rule.ExitCodes, exitCode)
		}) {
			return true
		}
		policy = corev1.RestartPolicy(*container.RestartPolicy)
	}
	return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && exitCode != 0
}

func restartsAll(containers []corev1.Container) bool {
	return slices.ContainsFunc(containers, func(container corev1.Container) bool {
		return slices.ContainsFunc(container.RestartPolicyRules, func(rule corev1.ContainerRestartRule) bool {
			return rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		})
	})
}

func matches(codes *corev1.ContainerRestartRuleOnExitCodes, exitCode int32) bool {
	if codes == nil {
		return false
	}
	switch listed := slices.Contains(codes.Values, exitCode); codes.Operator {
	case corev1.ContainerRestartRuleOnExitCodesOpIn:
		return listed
	case corev1.ContainerRestartRuleOnExitCodesOpNotIn:
		return !listed
	}
	return false
}
