// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/apiserver/volume"
	"liqo.io/federation/controllers/kit"
	"liqo.io/federation/controllers/storage/mover"
)

const (
	// Role is the name of the ClusterRole that this process has in a namespace while a move runs there, and of the
	// RoleBinding that grants it.
	Role     = "federation-mover"
	rootUser = 0
)

// capabilities are the Linux capabilities that a process needs to copy files of several users. The Pod Security
// Standard baseline allows all of them.
var capabilities = []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "MKNOD"}

// grant binds Role to this process in the user's namespace. It reports whether it created the RoleBinding.
func (m *move) grant(ctx context.Context) (bool, error) {
	defer m.revoked.Delete(m.volume.Namespace)
	bound := &rbacv1.RoleBinding{}
	bound, err := found(bound, m.Live.Get(ctx, m.key(Role), bound))
	if err != nil || bound != nil {
		return false, err
	}
	meta := m.objectMeta(Role)
	meta.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
	err = m.Client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: Role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: m.Account, Namespace: m.AccountNamespace}},
	})
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("binding role %s in namespace %s: %w", Role, m.volume.Namespace, err)
	}
	return true, nil
}

// revoke deletes the RoleBinding that grant created in a namespace, unless a move is requested or runs there. It is
// called after the end of a move was recorded, because a move that is not recorded as ended continues. Each move that
// ends calls it, so the last one finds that no other move runs. It reads the RoleBinding once per call of grant, and
// once after a restart.
func (r *Reconciler) revoke(ctx context.Context, namespace string) error {
	// The record is set first: a grant after it removes the record again.
	if _, done := r.revoked.LoadOrStore(namespace, true); done {
		return nil
	}
	deleted, err := r.unbind(ctx, namespace)
	if err != nil || !deleted {
		r.revoked.Delete(namespace)
	}
	return err
}

// unbind deletes the RoleBinding, and reports whether it does not exist any more. It is kept while a move is requested
// or runs in the namespace.
func (r *Reconciler) unbind(ctx context.Context, namespace string) (bool, error) {
	var volumes v1alpha1.VirtualVolumeList
	if err := r.Client.List(ctx, &volumes, client.InNamespace(namespace)); err != nil {
		return false, fmt.Errorf("listing virtual volumes: %w", err)
	}
	if slices.ContainsFunc(volumes.Items, func(vv v1alpha1.VirtualVolume) bool {
		return vv.Status.Move != nil && !ended(vv.Status.Move.Phase) || isNewlyRequested(&vv)
	}) {
		return false, nil
	}
	binding := &rbacv1.RoleBinding{}
	binding, err := found(binding, r.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: Role}, binding))
	if err != nil || binding == nil {
		return err == nil, err
	}
	return true, kit.Delete(ctx, r.Client, binding)
}

// reflection returns the annotations of the Secret and the Service of the movers, by which these are reflected to the
// providers of the source and of the target, and to no other. target is where the receiver runs.
func (m *move) reflection(target place) map[string]string {
	var clusters []string
	for _, id := range []string{m.progress.Source.ClusterID, target.clusterID} {
		if id != "" && !slices.Contains(clusters, id) {
			clusters = append(clusters, id)
		}
	}
	if len(clusters) == 0 {
		return map[string]string{v1alpha1.AnnotationSkipReflection: "true"}
	}
	return map[string]string{
		v1alpha1.AnnotationAllowReflection: "true", v1alpha1.AnnotationReflectTo: strings.Join(clusters, ","),
	}
}

// share creates the Secret with the certificate that both movers present and the Service of the receiver. reflection
// has the annotations of both objects.
func (m *move) share(ctx context.Context, reflection map[string]string) error {
	meta := m.objectMeta(m.shared)
	meta.Annotations = reflection
	certificate, key, err := mover.NewIdentity(m.shared)
	if err != nil {
		return err
	}
	// This process may not read the Secret, so an existing one is kept.
	if err := m.create(ctx, &corev1.Secret{
		ObjectMeta: meta, Immutable: ptr.To(true), Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key},
	}); err != nil {
		return err
	}
	return m.create(ctx, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone,
		Selector:  m.moverLabels(roleReceiver),
		Ports:     []corev1.ServicePort{{Name: "mover", Port: mover.Port, TargetPort: intstr.FromInt32(mover.Port)}},
	}})
}

func (m *move) moverLabels(role string) map[string]string {
	labels := m.objectMeta("").Labels
	labels[LabelRole] = role
	return labels
}

// place is the cluster and the node on which a mover runs.
type place struct {
	// clusterID is the cluster id of the provider; empty means the local cluster.
	clusterID string
	// node is the name of the local node; empty means that the scheduler selects it.
	node string
	// near has the labels of a pod that uses the volume on a provider. A mover is preferably scheduled to the node of
	// that pod, to which the volume is attached.
	near map[string]string
}

// moverSpec has the parameters by which movers differ.
type moverSpec struct {
	role  string
	claim string
	at    place
	mark  *Mark
}

// moverPod returns the pod to create for a mover.
func (m *move) moverPod(spec moverSpec) *corev1.Pod {
	name, args := m.receiver, []string{mover.ModeReceive}
	if spec.role == roleSender {
		name, args = m.sender, m.senderArguments()
	}
	meta := m.objectMeta(name)
	maps.Copy(meta.Labels, m.moverLabels(spec.role))
	podSecurity, security := securityContexts(spec.mark, spec.role)
	pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		AutomountServiceAccountToken:  ptr.To(false),
		EnableServiceLinks:            ptr.To(false),
		TerminationGracePeriodSeconds: ptr.To[int64](1),
		SecurityContext:               podSecurity,
		Affinity:                      spec.at.affinity(),
		Tolerations:                   spec.at.tolerations(spec.role),
		Containers: []corev1.Container{{
			Name: "mover", Image: m.Mover.Image, ImagePullPolicy: corev1.PullPolicy(m.Mover.PullPolicy),
			Args: args, SecurityContext: security, Ports: ports(spec.role),
			Resources: corev1.ResourceRequirements{Requests: volume.MoverRequests()},
			ReadinessProbe: &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{mover.Program, mover.ModeReady}}},
				PeriodSeconds: 1, TimeoutSeconds: 5,
			},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "data", MountPath: mover.DataPath, ReadOnly: spec.role == roleSender},
				{Name: "identity", MountPath: mover.IdentityPath, ReadOnly: true},
				{Name: "state", MountPath: mover.StatePath},
			},
		}},
		Volumes: []corev1.Volume{
			{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
				ClaimName: spec.claim, ReadOnly: spec.role == roleSender,
			}}},
			{Name: "identity", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: m.shared}}},
			{Name: "state", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
	}}
	if spec.role == roleReceiver {
		startsLastPass(pod)
	}
	return pod
}

// startsLastPass mounts the value of AnnotationPass in the receiver as a file, which starts the last pass.
func startsLastPass(pod *corev1.Pod) {
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, AnnotationPass, "")
	container := &pod.Spec.Containers[0]
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
		Name: "pass", MountPath: path.Dir(mover.PassPath), ReadOnly: true,
	})
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "pass", VolumeSource: corev1.VolumeSource{
		DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{
			Path: path.Base(mover.PassPath), FieldRef: &corev1.ObjectFieldSelector{
				APIVersion: "v1", FieldPath: "metadata.annotations['" + AnnotationPass + "']",
			},
		}}},
	}})
}

func ports(role string) []corev1.ContainerPort {
	if role == roleSender {
		return nil
	}
	return []corev1.ContainerPort{{Name: "mover", ContainerPort: mover.Port}}
}

// senderArguments returns the arguments of the sender. The receiver's host name has no namespace, because the remote
// namespace on a provider has another name.
func (m *move) senderArguments() []string {
	args := []string{mover.ModeSend, fmt.Sprintf("--address=%s:%d", m.shared, mover.Port)}
	if m.spec.Bandwidth != nil {
		args = append(args, fmt.Sprintf("--bandwidth=%d", m.spec.Bandwidth.Value()))
	}
	if m.spec.Verify == v1alpha1.VerifyFull || m.spec.Verify == "" && m.spec.Strategy == v1alpha1.MoveOffline {
		args = append(args, "--full")
	}
	return args
}

// securityContexts returns the security contexts of a mover's pod and container. The mover runs as root with the
// capabilities to copy files of several users, or as mark.Owner if that is set, because the namespace forbids root.
func securityContexts(mark *Mark, role string) (*corev1.PodSecurityContext, *corev1.SecurityContext) {
	pod := &corev1.PodSecurityContext{
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		SELinuxOptions: seLinux(mark.SELinux),
	}
	container := &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	if mark.Owner == nil {
		pod.RunAsUser, pod.RunAsGroup = ptr.To[int64](rootUser), ptr.To[int64](rootUser)
		container.Capabilities.Add = capabilities
		return pod, container
	}
	pod.RunAsNonRoot, pod.RunAsUser, pod.RunAsGroup = ptr.To(true), &mark.Owner.User, mark.Owner.Group
	if role == roleReceiver {
		// Without fsGroup, a user other than root cannot write to a new volume.
		pod.FSGroup = mark.Owner.Group
		if pod.FSGroup == nil {
			pod.FSGroup = &mark.Owner.User
		}
	}
	return pod, container
}

// containerTypes are the SELinux types that the Pod Security Standard baseline allows.
var containerTypes = []string{"container_t", "container_init_t", "container_kvm_t", "container_engine_t"}

// seLinux returns the SELinux options of a mover, from those of a pod that mounts the claim: the level, which the files
// of the volume have, and the type if the Pod Security Standard baseline allows it.
func seLinux(of *corev1.SELinuxOptions) *corev1.SELinuxOptions {
	if of == nil {
		return nil
	}
	options := corev1.SELinuxOptions{Level: of.Level}
	if slices.Contains(containerTypes, of.Type) {
		options.Type = of.Type
	}
	if options == (corev1.SELinuxOptions{}) {
		return nil
	}
	return &options
}

// affinity returns the affinity by which a mover runs at this place.
func (p place) affinity() *corev1.Affinity {
	term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: v1alpha1.LabelType, Operator: corev1.NodeSelectorOpNotIn, Values: []string{v1alpha1.TypeVirtualNode}},
	}}
	if p.clusterID != "" {
		term.MatchExpressions = []corev1.NodeSelectorRequirement{
			{Key: v1alpha1.LabelRemoteClusterID, Operator: corev1.NodeSelectorOpIn, Values: []string{p.clusterID}},
		}
	}
	if p.node != "" {
		term.MatchFields = []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{p.node}},
		}
	}
	required := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}
	affinity := &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required},
	}
	if p.clusterID != "" && len(p.near) > 0 {
		affinity.PodAffinity = &corev1.PodAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
				Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{
					LabelSelector: &metav1.LabelSelector{MatchLabels: p.near}, TopologyKey: corev1.LabelHostname,
				},
			}},
		}
	}
	return affinity
}

// tolerations returns the tolerations of a mover. On a provider, a mover tolerates the taint TaintVirtualNode, and a
// sender also cordoned nodes. In the local cluster, a sender, and a receiver whose node the move selects, tolerate all
// taints with the effect NoSchedule.
func (p place) tolerations(role string) []corev1.Toleration {
	if p.clusterID != "" {
		tolerations := []corev1.Toleration{{
			Key: v1alpha1.TaintVirtualNode, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
		}}
		if role == roleSender {
			tolerations = append(tolerations, corev1.Toleration{
				Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists,
				Effect: corev1.TaintEffectNoSchedule,
			})
		}
		return tolerations
	}
	if role == roleSender || p.node != "" {
		return []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
	}
	return nil
}

// ensure creates the pod of a mover unless it exists, and returns the existing pod, which runs, starts or has ended
// with a result. It deletes a pod that ended without a result, mounts another claim, or is not scheduled and has
// another affinity, and returns nil until a new pod exists.
func (m *move) ensure(ctx context.Context, spec moverSpec) (*corev1.Pod, error) {
	wanted := m.moverPod(spec)
	pod := &corev1.Pod{}
	pod, err := found(pod, m.Live.Get(ctx, types.NamespacedName{Namespace: wanted.Namespace, Name: wanted.Name}, pod))
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, m.create(ctx, wanted)
	}
	if !m.isMover(pod) || pod.Labels[LabelRole] != spec.role {
		return nil, fmt.Errorf("creating pod %s: another pod has this name, delete it", wanted.Name)
	}
	misplaced := pod.Spec.NodeName == "" && !equality.Semantic.DeepEqual(pod.Spec.Affinity, wanted.Spec.Affinity)
	_, reported := result(pod)
	if misplaced || !pod.DeletionTimestamp.IsZero() || hasEnded(pod) && !reported || claimOf(pod) != spec.claim {
		if pod.DeletionTimestamp.IsZero() {
			return nil, kit.Delete(ctx, m.Client, pod)
		}
		return nil, nil
	}
	return pod, nil
}

// claimOf returns the name of the claim that a mover mounts.
func claimOf(pod *corev1.Pod) string {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			return v.PersistentVolumeClaim.ClaimName
		}
	}
	return ""
}

// result returns the final report of a mover, and whether it has ended with one.
func result(pod *corev1.Pod) (mover.Report, bool) {
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Terminated == nil {
			continue
		}
		report, ok := mover.ParseReport(status.State.Terminated.Message)
		if ok && (report.State == mover.StateDone || report.State == mover.StateFailed) {
			return report, true
		}
	}
	return mover.Report{}, false
}

func isPodReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp.IsZero()
		}
	}
	return false
}

// removeMovers deletes the pods of both movers, and reports which of them no longer exist.
func (m *move) removeMovers(ctx context.Context) (senderDeleted, receiverDeleted bool, err error) {
	if senderDeleted, err = m.remove(ctx, &corev1.Pod{}, m.sender); err != nil {
		return false, false, err
	}
	receiverDeleted, err = m.remove(ctx, &corev1.Pod{}, m.receiver)
	return senderDeleted, receiverDeleted, err
}

// removeShared deletes the Secret and the Service that share created. It deletes them by name, which contains the ID of
// the move, because this process may not read them.
func (m *move) removeShared(ctx context.Context) error {
	meta := m.objectMeta(m.shared)
	for _, object := range []client.Object{&corev1.Secret{ObjectMeta: meta}, &corev1.Service{ObjectMeta: meta}} {
		if err := m.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %s %s: %w", kindOf(object), m.shared, err)
		}
	}
	return nil
}
