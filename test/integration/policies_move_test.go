// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"liqo.io/federation/apiserver/compatibility"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/test/integration/framework"
)

// By its role, the controller manager could create any pod in a namespace in which data is moved.
func TestPoliciesKeepTheControllerManagerToTheMoversOfAMove(t *testing.T) {
	env := framework.Get(t)
	installPolicies(t, env)
	env.Kubectl(t, env.Chart(t, "policies-move.yaml", "rbac-storage-move.yaml"), "apply", "-f", "-")
	bindEverywhere(t, env, "movers-of-a-move", "cluster-admin",
		rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: controllerManager, Namespace: framework.Namespace})
	shop := env.MakeNamespace(t)
	env.ServiceAccount(t, shop, "default")
	env.ServiceAccount(t, shop, "operator")
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "of-a-move"}, Handler: "runc"}
	must(t)(env.Kube.NodeV1().RuntimeClasses().Create(t.Context(), class, metav1.CreateOptions{}))
	core := kubeOf(t, env.ServiceAccount(t, framework.Namespace, controllerManager)).CoreV1()
	pod := func(change func(*corev1.Pod)) func(context.Context) error {
		return func(ctx context.Context) error {
			mover := moverPod()
			change(mover)
			_, err := core.Pods(shop).Create(ctx, mover, dryCreate)
			return err
		}
	}
	container := func(change func(*corev1.Container)) func(context.Context) error {
		return pod(func(p *corev1.Pod) { change(&p.Spec.Containers[0]) })
	}
	gated := moverPod()
	gated.Name, gated.Labels = "db-0", nil
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "storage.liqo.io/moving"}}
	must(t)(env.Kube.CoreV1().Pods(shop).Create(t.Context(), gated, metav1.CreateOptions{}))
	patch := func(patch string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := core.Pods(shop).Patch(ctx, "db-0", types.MergePatchType, []byte(patch), dryPatch)
			return err
		}
	}
	secret := func(name string, data map[string][]byte) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := core.Secrets(shop).Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{volume.LabelMove: "a"}},
				Type:       corev1.SecretTypeTLS, Data: data,
			}, dryCreate)
			return err
		}
	}
	const (
		only, image, token, one = "only the pods of a move", "image of the mover only", "must not have a token",
			"must mount one claim"
		isolation            = "must not name a node or a RuntimeClass"
		gate, created, other = "only the scheduling gate", "may be created and deleted", "contain its certificate"
	)
	expect(t, []attempt{
		{"creates the sender", "", pod(func(*corev1.Pod) {})},
		{"creates another pod", only, pod(func(p *corev1.Pod) { p.Name = "shell" })},
		{"creates a pod of another image", image, pod(func(p *corev1.Pod) { p.Spec.Containers[0].Image = "busybox" })},
		{"creates a pod that runs a command", image, pod(func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"sh"} })},
		{"creates a pod with a token", token, pod(func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = nil })},
		{"creates a pod of another account", token, pod(func(p *corev1.Pod) { p.Spec.ServiceAccountName = "operator" })},
		{"creates a pod with the network of its node", token, pod(func(p *corev1.Pod) { p.Spec.HostNetwork = true })},
		{"creates a sender that writes", one, pod(func(p *corev1.Pod) { p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = false })},
		{"creates a pod with another Secret", one, pod(func(p *corev1.Pod) { p.Spec.Volumes[1].Secret.SecretName = "password" })},
		{"creates a sender with the SELinux level of the files", "", pod(func(p *corev1.Pod) {
			p.Spec.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Level: "s0:c1,c2", Type: "container_t"}
		})},
		{"creates a pod on a node", isolation, pod(func(p *corev1.Pod) { p.Spec.NodeName = "node-1" })},
		{"creates a pod of a RuntimeClass", isolation, pod(func(p *corev1.Pod) {
			p.Spec.RuntimeClassName = ptr.To("of-a-move")
		})},
		{"creates a pod with a port of its node", isolation, container(func(c *corev1.Container) {
			c.Ports = []corev1.ContainerPort{{ContainerPort: 7000, HostPort: 7000}}
		})},
		{"creates a pod without seccomp", isolation, pod(func(p *corev1.Pod) {
			p.Spec.SecurityContext.SeccompProfile = nil
		})},
		{"creates a container without seccomp", isolation, container(func(c *corev1.Container) {
			c.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		})},
		{"creates a pod with a privileged SELinux type", isolation, pod(func(p *corev1.Pod) {
			p.Spec.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"}
		})},
		{"creates a pod with an SELinux role", isolation, pod(func(p *corev1.Pod) {
			p.Spec.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Role: "system_r"}
		})},
		{"creates a container with a privileged SELinux type", isolation, container(func(c *corev1.Container) {
			c.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"}
		})},
		{"creates a pod without AppArmor", isolation, pod(func(p *corev1.Pod) {
			p.Spec.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
		})},
		{"creates a container without AppArmor", isolation, container(func(c *corev1.Container) {
			c.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
		})},
		{"creates a container with an unmasked /proc", isolation, pod(func(p *corev1.Pod) {
			p.Spec.HostUsers = ptr.To(false)
			p.Spec.Containers[0].SecurityContext.ProcMount = ptr.To(corev1.UnmaskedProcMount)
		})},
		{"removes the gate of a move", "", patch(`{"spec":{"schedulingGates":null}}`)},
		{"annotates a pod of a user", gate, patch(`{"metadata":{"annotations":{"a":"b"}}}`)},
		{"changes the image of a pod of a user", gate, func(ctx context.Context) error {
			_, err := core.Pods(shop).Patch(ctx, "db-0", types.JSONPatchType,
				[]byte(`[{"op":"replace","path":"/spec/containers/0/image","value":"busybox"}]`), dryPatch)
			return err
		}},
		{"labels a pod of a user as a mover", gate, patch(`{"metadata":{"labels":{"storage.liqo.io/move":"a"}}}`)},
		{"creates the certificate of a move", "", secret("move-a", map[string][]byte{"tls.crt": []byte("x"), "tls.key": []byte("y")})},
		{"creates another Secret", created, secret("password", map[string][]byte{"tls.crt": []byte("x"), "tls.key": []byte("y")})},
		{"creates a Secret with other keys", other, secret("move-a", map[string][]byte{"tls.crt": []byte("x"), "tls.key": []byte("y"), "token": []byte("z")})},
	})
}

// moverPod returns the sender of a move with ID a.
func moverPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "move-a-sender", Labels: map[string]string{volume.LabelMove: "a"}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false),
			SecurityContext: &corev1.PodSecurityContext{
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "mover", Image: "liqo.io/federation-mover:" + compatibility.Version, Args: []string{"send"},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false),
					Capabilities: &corev1.Capabilities{
						Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"CHOWN", "DAC_OVERRIDE"},
					}},
			}},
			Volumes: []corev1.Volume{
				{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-0", ReadOnly: true}}},
				{Name: "key", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "move-a"}}},
				{Name: "state", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
		},
	}
}
